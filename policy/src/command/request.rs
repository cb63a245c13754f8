//! What a request asks a web service to do: delete, stop, change who may do what.

use super::act::Act;
use crate::classify::given::Given;
use crate::effect::Action;
use crate::risk::Risk;

/// Judges a request by its method, its addresses and what it carries.
pub(super) fn judge(act: &mut Act<'_, '_>, method: Option<&str>, addresses: &[Given]) {
    let by_path = addresses.iter().find(|address| {
        let path = address.text.split('?').next().unwrap_or_default();
        let last = path
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or_default();
        let last = last.to_ascii_lowercase();
        matches!(method, Some("POST" | "PUT")) && is_grave_request(&last)
            || matches!(method, Some("POST" | "PUT")) && path.contains("/_cluster/")
    });
    let rights = matches!(method, Some("POST" | "PUT" | "PATCH"))
        .then(|| addresses.iter().find(|one| changes_rights(&one.text)))
        .flatten();
    if let Some(address) = rights {
        let says = "Changes who may do what through a web service";
        act.draft
            .effect(Action::Publishes, Risk::Dangerous, says, address.span);
    }
    let mutation = act.args.iter().find(|word| is_grave_mutation(&word.text));
    let span = match (method, by_path) {
        (Some("DELETE"), _) => act.call.span,
        _ if mutation.is_some() => mutation.map_or(act.call.span, |word| word.span),
        (_, Some(address)) => address.span,
        _ => return,
    };
    act.draft.effect(
        Action::Discards,
        Risk::Dangerous,
        "Deletes or stops something through a web service",
        span,
    );
}

/// Paths of forges behind which is who may do what.
fn changes_rights(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let mut parts = path.trim_end_matches('/').split('/');
    let forge = parts
        .by_ref()
        .any(|part| matches!(part, "repos" | "orgs" | "projects" | "user" | "groups"));
    forge
        && parts.any(|part| {
            matches!(
                part,
                "collaborators"
                    | "protection"
                    | "protected_branches"
                    | "rulesets"
                    | "keys"
                    | "deploy_keys"
                    | "hooks"
                    | "members"
                    | "memberships"
                    | "transfer"
                    | "secrets"
            )
        })
}

/// What the last part of an address asks a service to do, when it is posted to.
fn is_grave_request(last: &str) -> bool {
    const DELETES: &[&str] = &[
        "delete", "dodelete", "destroy", "purge", "_close", "_delete",
    ];
    const STOPS: &[&str] = &["shutdown", "quit", "exit", "restart", "terminate"];
    DELETES.iter().any(|verb| last.starts_with(verb))
        || last.split(['-', '_']).any(|part| DELETES.contains(&part))
        // Jenkins waits for its builds: `safeRestart`.
        || STOPS.contains(&last.strip_prefix("safe").unwrap_or(last))
}

/// GraphQL's `mutation { deleteRepository(…) }`.
fn is_grave_mutation(text: &str) -> bool {
    let grave = ["delete", "remove", "destroy", "archive", "revoke", "purge"];
    text.split_once("mutation").is_some_and(|(_, behind)| {
        let mut names = behind.split(|c: char| !c.is_ascii_alphanumeric());
        names.any(|name| grave.iter().any(|verb| name.starts_with(verb)))
    })
}
