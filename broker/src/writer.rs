//! The one thread that writes. Whoever wants something kept sends the work here;
//! all work that has arrived is committed at once, and nobody hears "done" before
//! it is on the disk.

use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::audit::ledger::Ledger;
use crate::error::{Error, Result};

/// So much work may wait; senders beyond that wait themselves.
const WAITING: usize = 1024;
/// So much work goes into one commit at most.
const BATCH: usize = 256;

/// What tells the sender how it went, once the commit has succeeded or failed.
type Tell = Box<dyn FnOnce(std::result::Result<(), String>) + Send>;
/// Work takes the ledger inside a transaction, or the reason why there is none.
type Work = Box<dyn FnOnce(std::result::Result<&mut Ledger, String>) -> Tell + Send>;

/// The way to the writing thread.
#[derive(Clone)]
pub struct Writer {
    sender: mpsc::Sender<Work>,
}

impl Writer {
    /// Starts the thread. It ends when every [`Writer`] is gone and all is written.
    pub fn start(ledger: Ledger) -> Result<(Writer, JoinHandle<()>)> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write_all(ledger, receiver))
            .map_err(Error::file("start a thread for", "audit.db"))?;
        Ok((Writer { sender }, thread))
    }

    /// Has work done on the ledger; returns when it is durable, or was undone.
    pub async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Ledger) -> Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let work: Work = Box::new(move |ledger| {
            let result = match ledger {
                Ok(ledger) => ledger.attempt(work),
                Err(why) => Err(Error::NotDurable(why)),
            };
            Box::new(move |committed: std::result::Result<(), String>| {
                let told = match committed {
                    Ok(()) => result,
                    Err(why) => Err(Error::NotDurable(why)),
                };
                // Whoever hung up does not want to know.
                let _ = answer.send(told);
            })
        });
        self.sender
            .send(work)
            .await
            .map_err(|_| Error::WriterGone)?;
        answered.await.map_err(|_| Error::WriterGone)?
    }
}

fn write_all(mut ledger: Ledger, mut receiver: mpsc::Receiver<Work>) {
    ledger.publish_head();
    while let Some(first) = receiver.blocking_recv() {
        let mut tells = Vec::new();
        let mark = match ledger.begin_transaction() {
            Ok(mark) => mark,
            Err(error) => {
                first(Err(error.to_string()))(Ok(()));
                continue;
            }
        };
        tells.push(first(Ok(&mut ledger)));
        while tells.len() < BATCH && ledger.in_transaction() {
            match receiver.try_recv() {
                Ok(work) => tells.push(work(Ok(&mut ledger))),
                Err(_) => break,
            }
        }
        let committed = ledger.commit(mark).map_err(|error| error.to_string());
        for tell in tells {
            tell(committed.clone());
        }
        if committed.is_ok() {
            ledger.publish_head();
        }
    }
    let _ = ledger.transaction(Ledger::checkpoint);
    ledger.publish_head();
    ledger.settle();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::audit::mirror::Mirror;
    use crate::audit::record::{Entry, Event};
    use crate::store::Files;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    }

    #[test]
    fn many_senders_get_numbers_without_gaps() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&Files::new(folder.path()), Mirror::none()).unwrap();
        let (writer, thread) = Writer::start(ledger).unwrap();
        let mut numbers = runtime().block_on(async {
            let tasks: Vec<_> = (0..100)
                .map(|_| {
                    let writer = writer.clone();
                    tokio::spawn(async move {
                        writer
                            .write(|ledger| ledger.append(Entry::new(Event::Start)))
                            .await
                            .unwrap()
                    })
                })
                .collect();
            let mut numbers = Vec::new();
            for task in tasks {
                numbers.push(task.await.unwrap());
            }
            numbers
        });
        numbers.sort_unstable();
        assert_eq!(numbers, (2..=101).collect::<Vec<i64>>());
        drop(writer);
        thread.join().unwrap();
    }

    #[test]
    fn work_that_fails_leaves_nothing_and_harms_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&Files::new(folder.path()), Mirror::none()).unwrap();
        let (writer, _thread) = Writer::start(ledger).unwrap();
        let (failed, fine) = runtime().block_on(async {
            let failing = writer.write(|ledger| {
                ledger.append(Entry::new(Event::Start))?;
                Err::<(), Error>(Error::WriterGone)
            });
            let fine = writer.write(|ledger| ledger.append(Entry::new(Event::Stop)));
            tokio::join!(failing, fine)
        });
        assert!(matches!(failed, Err(Error::WriterGone)));
        assert_eq!(fine.unwrap(), 2);
    }
}
