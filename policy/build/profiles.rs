//! Writes `profiles/*.toml` as static data, so that starting costs no parsing.

use std::fmt::Write;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::emit::Pools;

type Result<T> = std::result::Result<T, String>;

/// The lists of a profile, in the order of the fields of `Profile`.
const LISTS: &[&str] = &[
    "system",
    "etc",
    "toolchains",
    "config",
    "hide",
    "caches",
    "pass",
    "drop",
    "protect",
];

/// The file that every other profile extends, directly or not.
const BASE: &str = "workspace";

/// What one profile says, its parent's words filled in.
#[derive(Clone, Default)]
struct Profile {
    name: String,
    summary: String,
    workspace: String,
    network: String,
    cache_source: String,
    memory_percent: Option<u32>,
    pids: Option<u32>,
    tmp_mib: Option<u64>,
    depth: u8,
    lists: Vec<Vec<(String, String)>>,
    agents: Vec<Agent>,
}

/// The lists of an agent, in the order of the fields of `AgentEntry`.
const AGENT_LISTS: &[&str] = &["config", "state", "hosts", "pass", "set"];

/// What one agent gets.
#[derive(Clone, Default)]
struct Agent {
    name: String,
    lists: Vec<Vec<(String, String)>>,
}

/// The source text of all profiles, the default one first.
pub fn tables(folder: &Path, pools: &mut Pools) -> Result<String> {
    let base = read(folder, BASE, &Profile::default())?;
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map_err(|e| format!("reading the folder {}: {e}", folder.display()))?
        .filter_map(|entry| {
            Some(
                entry
                    .ok()?
                    .file_name()
                    .to_str()?
                    .strip_suffix(".toml")?
                    .to_owned(),
            )
        })
        .filter(|name| name != BASE)
        .collect();
    names.sort();
    let mut out = String::from("pub(crate) static PROFILES: &[Profile] = &[\n");
    emit(&base, pools, &mut out);
    for name in names {
        emit(&read(folder, &name, &base)?, pools, &mut out);
    }
    out.push_str("];\n");
    Ok(out)
}

fn read(folder: &Path, name: &str, parent: &Profile) -> Result<Profile> {
    let path = folder.join(format!("{name}.toml"));
    let at = |problem: String| format!("{}: {problem}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|e| at(e.to_string()))?;
    let table = DeTable::parse(&text).map_err(|e| at(e.to_string()))?;
    let mut profile = parent.clone();
    profile.name = name.to_owned();
    profile.lists.resize(LISTS.len(), Vec::new());
    for (key, value) in table.get_ref() {
        take(&mut profile, key.get_ref(), value.get_ref()).map_err(at)?;
    }
    if name == BASE && profile.lists.iter().any(Vec::is_empty) {
        return Err(at(format!("each of {LISTS:?} must have entries")));
    }
    Ok(profile)
}

fn take(profile: &mut Profile, key: &str, value: &DeValue) -> Result<()> {
    match (key, value) {
        ("summary", DeValue::String(text)) => profile.summary = text.to_string(),
        ("extends", DeValue::String(parent)) if parent == BASE && !profile.lists.is_empty() => {}
        ("sandbox" | "network" | "limits" | "cache" | "protected", DeValue::Table(table)) => {
            for (name, value) in table {
                scalar(profile, key, name.get_ref(), value.get_ref())?;
            }
        }
        ("agents", DeValue::Table(table)) => {
            for (name, lists) in table {
                profile.agents.push(agent(name.get_ref(), lists.get_ref())?);
            }
        }
        (list, DeValue::Table(table)) => {
            let number = LISTS
                .iter()
                .position(|known| *known == list)
                .ok_or_else(|| format!("unknown table `{list}`"))?;
            let slot = profile.lists.get_mut(number).ok_or("no such list")?;
            *slot = entries(table, slot)?;
        }
        _ => return Err(format!("unknown key `{key}`")),
    }
    Ok(())
}

fn agent(name: &str, value: &DeValue) -> Result<Agent> {
    let DeValue::Table(table) = value else {
        return Err(format!("`agents.{name}` must be a table"));
    };
    let mut agent = Agent {
        name: name.to_owned(),
        lists: vec![Vec::new(); AGENT_LISTS.len()],
    };
    for (list, value) in table {
        let number = AGENT_LISTS.iter().position(|known| known == list.get_ref());
        let slot = number.and_then(|number| agent.lists.get_mut(number));
        match (slot, value.get_ref()) {
            (Some(slot), DeValue::Table(table)) => *slot = entries(table, &[])?,
            _ => return Err(format!("unknown table `agents.{name}.{}`", list.get_ref())),
        }
    }
    Ok(agent)
}

fn scalar(profile: &mut Profile, table: &str, key: &str, value: &DeValue) -> Result<()> {
    let wrong = || format!("`{table}.{key}` has a value that is not understood");
    match (table, key) {
        ("sandbox", "workspace") => {
            profile.workspace =
                choice(value, &[("none", "None"), ("ro", "Ro"), ("rw", "Rw")]).ok_or_else(wrong)?;
        }
        ("network", "mode") => {
            profile.network = choice(
                value,
                &[("none", "None"), ("filtered", "Filtered"), ("host", "Host")],
            )
            .ok_or_else(wrong)?;
        }
        ("cache", "source") => {
            let known = [
                ("none", "None"),
                ("closed", "Closed"),
                ("own", "Own"),
                ("host-read-only", "HostReadOnly"),
            ];
            profile.cache_source = choice(value, &known).ok_or_else(wrong)?;
        }
        ("limits", "memory_percent") => {
            profile.memory_percent = Some(number(value).ok_or_else(wrong)?)
        }
        ("limits", "pids") => profile.pids = Some(number(value).ok_or_else(wrong)?),
        ("limits", "tmp_mib") => profile.tmp_mib = Some(number(value).ok_or_else(wrong)?),
        ("protected", "depth") => profile.depth = number(value).ok_or_else(wrong)?,
        _ => return Err(format!("unknown key `{table}.{key}`")),
    }
    Ok(())
}

fn choice(value: &DeValue, known: &[(&str, &str)]) -> Option<String> {
    let text = value.as_str()?;
    known
        .iter()
        .find(|(name, _)| *name == text)
        .map(|(_, variant)| (*variant).to_owned())
}

fn number<T: std::str::FromStr + PartialOrd + Default>(value: &DeValue) -> Option<T> {
    value
        .as_integer()?
        .as_str()
        .parse()
        .ok()
        .filter(|number| *number > T::default())
}

/// The entries in the order of the file, each with its reason. With `extends = true` the
/// parent's come first, and an entry with an empty reason takes the parent's out.
fn entries(table: &DeTable, parent: &[(String, String)]) -> Result<Vec<(String, String)>> {
    let mut own: Vec<(usize, &str, &Spanned<DeValue>)> = table
        .iter()
        .map(|(key, value)| (key.span().start, key.get_ref().as_ref(), value))
        .collect();
    own.sort_by_key(|(place, ..)| *place);
    let mut list = Vec::new();
    for (_, entry, reason) in own {
        match reason.get_ref() {
            DeValue::Boolean(true) if entry == "extends" => list.extend_from_slice(parent),
            DeValue::String(reason) if reason.is_empty() => {
                if !list.iter().any(|(known, _)| known == entry) {
                    return Err(format!("`{entry}` takes out what is not there"));
                }
                list.retain(|(known, _)| known != entry);
            }
            DeValue::String(reason) => list.push((entry.to_owned(), reason.to_string())),
            _ => return Err(format!("`{entry}` needs its reason, a text")),
        }
    }
    Ok(list)
}

fn emit(profile: &Profile, pools: &mut Pools, out: &mut String) {
    let option = |wrap: &str, value: Option<u64>| match value {
        Some(value) => format!("{wrap}({value})"),
        None => "None".to_owned(),
    };
    let tmp = profile.tmp_mib.map_or("None".to_owned(), |mib| {
        format!("Some(Size::from_bytes({}))", mib.saturating_mul(1 << 20))
    });
    let _ = write!(
        out,
        "Profile {{ name: {:?}, summary: {:?}, workspace: Access::{}, network: NetworkMode::{}, cache_source: CacheSource::{}, \
         memory: {}, pids: {}, tmp: {tmp}, protect_depth: {}",
        profile.name,
        profile.summary,
        profile.workspace,
        profile.network,
        profile.cache_source,
        option("Percent::new", profile.memory_percent.map(u64::from)),
        option("Some", profile.pids.map(u64::from)),
        profile.depth,
    );
    emit_lists(LISTS, &profile.lists, pools, out);
    out.push_str(",\n agents: &[");
    for agent in &profile.agents {
        let _ = write!(out, "AgentEntry {{ name: {:?}", agent.name);
        emit_lists(AGENT_LISTS, &agent.lists, pools, out);
        out.push_str(" }, ");
    }
    out.push_str("] },\n");
}

fn emit_lists(
    names: &[&str],
    lists: &[Vec<(String, String)>],
    pools: &mut Pools,
    out: &mut String,
) {
    for (name, list) in names.iter().zip(lists) {
        let _ = write!(out, ",\n {name}: &[");
        for (value, why) in list {
            let (value, why) = (pools.text(value), pools.text(why));
            let _ = write!(out, "Entry {{ value: {value}, why: {why} }}, ");
        }
        out.push(']');
    }
}
