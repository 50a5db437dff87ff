// SPDX-License-Identifier: GPL-2.0

//! Finds the hooks and exits that the user names.

#![deny(unsafe_code)]

use std::str::FromStr;

use super::error::Error;
use super::error::Others;
use super::error::Result;
use super::model::Exit;
use super::model::ExitId;
use super::model::Hook;
use super::model::Name;

/// HOOK or HOOK/EXIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All exits of a hook.
    Hook(Name),
    /// One of them.
    Exit(ExitId),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        Ok(match text.split_once('/') {
            None => Target::Hook(text.parse()?),
            Some((hook, exit)) => Target::Exit(ExitId {
                hook: hook.parse()?,
                exit: exit.parse()?,
            }),
        })
    }
}

impl Hook {
    /// The full name of one of its exits.
    pub fn id(&self, exit: &Exit) -> ExitId {
        ExitId {
            hook: self.name.clone(),
            exit: exit.name.clone(),
        }
    }
}

/// The hook of that name.
pub fn hook<'a>(hooks: &'a [Hook], name: &Name) -> Result<&'a Hook> {
    if let Some(hook) = hooks.iter().find(|hook| hook.name == *name) {
        return Ok(hook);
    }
    let meant: Vec<_> = hooks
        .iter()
        .filter(|hook| hook.exits.iter().any(|exit| exit.name == *name))
        .map(|hook| format!("{}/{name}", hook.name))
        .collect();
    Err(if meant.is_empty() {
        Error::NoHook {
            hook: name.clone(),
            others: Others(hooks.iter().map(|hook| hook.name.to_string()).collect()),
        }
    } else {
        Error::ExitMeant {
            name: name.clone(),
            others: Others(meant),
        }
    })
}

/// Keeps only the hooks with these names, or all if there are no names. Each must exist.
pub fn only(mut hooks: Vec<Hook>, names: &[Name]) -> Result<Vec<Hook>> {
    for name in names {
        hook(&hooks, name)?;
    }
    if !names.is_empty() {
        hooks.retain(|hook| names.contains(&hook.name));
    }
    Ok(hooks)
}

/// The exits that are named, each once.
pub fn exits(hooks: &[Hook], targets: &[Target]) -> Result<Vec<ExitId>> {
    let mut found = Vec::new();
    for target in targets {
        let ids = match target {
            Target::Hook(name) => {
                let hook = hook(hooks, name)?;
                if hook.exits.is_empty() {
                    return Err(Error::NoExits(name.clone()));
                }
                hook.exits.iter().map(|exit| hook.id(exit)).collect()
            }
            Target::Exit(id) => {
                let hook = hook(hooks, &id.hook)?;
                if !hook.exits.iter().any(|exit| exit.name == id.exit) {
                    let names = hook.exits.iter().map(|exit| exit.name.to_string());
                    return Err(Error::NoExit {
                        exit: id.clone(),
                        others: Others(names.collect()),
                    });
                }
                vec![id.clone()]
            }
        };
        for id in ids {
            if !found.contains(&id) {
                found.push(id);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::super::sample;
    use super::*;

    fn find(names: &[&str]) -> std::result::Result<Vec<String>, String> {
        let targets: Vec<_> = names.iter().map(|name| name.parse().unwrap()).collect();
        exits(&parse(sample::TEXT).unwrap(), &targets)
            .map(|ids| ids.iter().map(ToString::to_string).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn targets() {
        assert!(matches!("a".parse(), Ok(Target::Hook(_))));
        assert!(matches!("a/b".parse(), Ok(Target::Exit(_))));
        for bad in ["", "/", "a/", "/b", "a/b/c", "a b", "a\nb"] {
            assert!(bad.parse::<Target>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn each_once_and_in_order() {
        assert_eq!(
            find(&["cpu_prepare/mine", "cpu_prepare"]).unwrap(),
            ["cpu_prepare/mine", "cpu_prepare/rust_relay"]
        );
    }

    #[test]
    fn what_is_not_there() {
        assert_eq!(
            find(&["int4"]).unwrap_err(),
            "there is no hook int4; hooks: int3, cpu_prepare"
        );
        assert_eq!(
            find(&["mine"]).unwrap_err(),
            "there is no hook mine; did you mean the exit cpu_prepare/mine?"
        );
        assert_eq!(
            find(&["cpu_prepare/mine", "cpu_prepare/your"]).unwrap_err(),
            "there is no exit cpu_prepare/your; exits on cpu_prepare: rust_relay, mine"
        );
        assert_eq!(
            find(&["int3/mine"]).unwrap_err(),
            "there is no exit int3/mine; exits on int3: none at all"
        );
        assert_eq!(find(&["int3"]).unwrap_err(), "there is no exit on int3");
    }

    #[test]
    fn some_of_the_hooks() {
        let hooks = || parse(sample::TEXT).unwrap();
        assert_eq!(only(hooks(), &[]).unwrap(), hooks());
        let int3 = only(hooks(), &["int3".parse().unwrap()]).unwrap();
        assert_eq!(int3.len(), 1);
        assert!(only(hooks(), &["int3".parse().unwrap(), "x".parse().unwrap()]).is_err());
    }
}
