//! Has the broker write down what a tool of an agent was kept from.

use sjail_policy::wire::request::{REFUSED, Refused};

use crate::caller::Account;
use crate::client::{Client, Desk};

/// Tells it. Without a broker it is refused all the same, unrecorded.
pub fn tell(refused: &Refused) {
    let desk = Desk::own(&Account::own());
    let _ = Client::connect(&desk).and_then(|mut client| client.call(REFUSED, refused));
}
