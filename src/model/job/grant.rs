//! What a job was given of one host, told to it so that a Lanai within the job offers that and no
//! more (F17).

use super::NodeShare;
use crate::model::resource::ResourceValue;
use serde::{Deserialize, Serialize};

/// The variable of a job's environment that holds it, as JSON.
pub const VARIABLE: &str = "LANAI_GRANT";

/// What a job has of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostGrant {
    /// Processors.
    pub ncpus: u32,
    /// Memory in kilobytes; None where the job has asked for none and is held to none.
    #[serde(default)]
    pub mem_kb: Option<u64>,
    /// The processors it is bound to, by the host's numbers; empty where nothing is bound.
    #[serde(default)]
    pub cpus: Vec<u16>,
    /// Its GPUs, by the host's numbers.
    #[serde(default)]
    pub gpus: Vec<u16>,
}

impl HostGrant {
    /// What these shares, all on one host, come to.
    pub fn of<'a>(shares: impl Iterator<Item = &'a NodeShare>) -> HostGrant {
        let mut grant = HostGrant::default();
        for share in shares {
            for (name, value) in &share.taken {
                match (name.as_str(), value) {
                    ("ncpus", ResourceValue::Long(count)) => {
                        grant.ncpus += u32::try_from(*count).unwrap_or(0)
                    }
                    ("mem", ResourceValue::Size(size)) => {
                        *grant.mem_kb.get_or_insert(0) += size.bytes() / 1024
                    }
                    _ => {}
                }
            }
            grant.cpus.extend(&share.cpus);
            grant.gpus.extend(&share.gpus);
        }
        grant
    }

    /// As the variable holds it; empty where it cannot be written, which plain numbers can.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads it again; the error says what is wrong with the text.
    pub fn parse(text: &str) -> Result<HostGrant, String> {
        let grant: HostGrant = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let bound = grant.cpus.is_empty() || grant.cpus.len() == grant.ncpus as usize;
        bound
            .then_some(grant)
            .ok_or_else(|| "it binds more or fewer processors than it has".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::resource::Size;

    fn share(ncpus: i64, mem: Option<&str>, cpus: &[u16], gpus: &[u16]) -> NodeShare {
        let mem = mem.map(|mem| {
            (
                "mem".to_string(),
                ResourceValue::Size(Size::parse(mem).unwrap()),
            )
        });
        NodeShare {
            node: "n1".into(),
            host: "n1".into(),
            taken: [("ncpus".to_string(), ResourceValue::Long(ncpus))]
                .into_iter()
                .chain(mem)
                .collect(),
            pooled: vec![],
            cpus: cpus.to_vec(),
            gpus: gpus.to_vec(),
            mpiprocs: 1,
            ranks: vec![],
        }
    }

    #[test]
    fn chunks_of_one_host_add_up() {
        let shares = [
            share(2, Some("1gb"), &[0, 1], &[3]),
            share(1, Some("512mb"), &[4], &[]),
        ];
        let grant = HostGrant::of(shares.iter());
        assert_eq!(
            grant,
            HostGrant {
                ncpus: 3,
                mem_kb: Some(1_572_864),
                cpus: vec![0, 1, 4],
                gpus: vec![3]
            }
        );
        assert_eq!(HostGrant::parse(&grant.text()), Ok(grant));
        assert_eq!(
            HostGrant::of([share(2, None, &[], &[])].iter()).mem_kb,
            None,
            "memory that nobody asked for"
        );
    }

    #[test]
    fn a_text_that_is_no_grant_is_refused() {
        assert_eq!(HostGrant::parse("{\"ncpus\":2}").unwrap().ncpus, 2);
        for bad in [
            "",
            "8",
            "{}",
            "{\"ncpus\":-1}",
            "{\"ncpus\":2,\"cpus\":[1]}",
            "{\"ncpus\":2,\"cores\":2}",
        ] {
            assert!(HostGrant::parse(bad).is_err(), "{bad}");
        }
    }
}
