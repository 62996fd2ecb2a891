//! Resources of a job on one host (F17). A nested installation, which is a personal installation
//! inside the job, offers exactly these resources. It gets them as JSON in an environment variable.

use super::NodeShare;
use crate::model::resource::ResourceValue;
use serde::{Deserialize, Serialize};

/// Environment variable of a job that contains the job's [`HostGrant`] as JSON.
pub const VARIABLE: &str = "LANAI_GRANT";

/// Resources of a job on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostGrant {
    /// Number of processors.
    pub ncpus: u32,
    /// Memory in kilobytes; None if the job requests no memory.
    #[serde(default)]
    pub mem_kb: Option<u64>,
    /// Processors to which the job is bound, by their numbers on the host; empty without binding.
    #[serde(default)]
    pub cpus: Vec<u16>,
    /// GPUs, by their numbers on the host.
    #[serde(default)]
    pub gpus: Vec<u16>,
}

impl HostGrant {
    /// Returns the total over these shares, which are all on one host.
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

    /// Returns the JSON text for [`VARIABLE`].
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the JSON text; the error describes the fault.
    pub fn parse(text: &str) -> Result<HostGrant, String> {
        let grant: HostGrant = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let bound = grant.cpus.is_empty() || grant.cpus.len() == grant.ncpus as usize;
        bound
            .then_some(grant)
            .ok_or_else(|| "the number of bound processors (cpus) differs from ncpus".to_string())
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
    fn shares_of_one_host_are_added() {
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
            "without a memory request"
        );
    }

    #[test]
    fn an_invalid_grant_is_refused() {
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
