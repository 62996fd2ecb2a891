//! A noded that runs inside a job of another Lanai presents only the resources of that job (F17).

use super::probe::Hardware;
use crate::model::job::grant::HostGrant;
use crate::sys::home::Home;
use anyhow::{Context, Result, anyhow};
use std::io::ErrorKind;

/// The resources granted to this installation; None if it does not run inside a job.
pub fn read(home: &Home) -> Result<Option<HostGrant>> {
    let path = home.grant();
    match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        // Do not ignore errors. A noded that presents the whole host would use the resources of
        // other jobs.
        text => text
            .map_err(|error| anyhow!(error))
            .and_then(|text| HostGrant::parse(&text).map_err(|why| anyhow!(why)))
            .map(Some)
            .with_context(|| path.display().to_string()),
    }
}

impl Hardware {
    /// The part of the hardware that is granted to a job.
    pub fn within(self, grant: &HostGrant) -> Hardware {
        let bound = !grant.cpus.is_empty();
        let processors = if bound {
            grant.cpus.clone()
        } else {
            (0..grant.ncpus)
                .filter_map(|number| u16::try_from(number).ok())
                .collect()
        };
        Hardware {
            processors,
            // If the outer job is not bound to processors, `processors` has invented numbers.
            // Because of the quota, noded binds no inner job to them.
            quota: (!bound).then_some(grant.ncpus),
            memory_kb: grant.mem_kb.unwrap_or(self.memory_kb),
            gpus: grant.gpus.clone(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::resource::ResourceValue;
    use crate::noded::args::NodedArgs;
    use crate::noded::probe;
    use clap::Parser;

    fn offered(grant: &HostGrant) -> crate::model::node::NodeFacts {
        let hardware = Hardware {
            host: "porch".into(),
            processors: vec![0, 1, 2, 3],
            quota: None,
            host_processors: 8,
            memory_kb: 4000,
            gpus: vec![0, 1],
        };
        probe::nodes(
            &NodedArgs::try_parse_from(["noded"]).unwrap(),
            &hardware.within(grant),
        )
        .remove(0)
    }

    #[test]
    fn only_the_granted_resources_are_presented() {
        let node = offered(&HostGrant {
            ncpus: 2,
            mem_kb: Some(1000),
            cpus: vec![1, 3],
            gpus: vec![1],
        });
        assert_eq!(
            (&node.available["ncpus"], &node.available["ngpus"]),
            (&ResourceValue::Long(2), &ResourceValue::Long(1))
        );
        assert_eq!(node.available["mem"].to_string(), "1000kb");
        assert_eq!((node.cpus, node.gpus), (vec![1, 3], vec![1]));
    }

    #[test]
    fn without_granted_processor_numbers_jobs_are_not_bound() {
        let node = offered(&HostGrant {
            ncpus: 6,
            ..HostGrant::default()
        });
        assert_eq!(node.available["ncpus"], ResourceValue::Long(6));
        assert_eq!(
            node.available["mem"].to_string(),
            "4000kb",
            "without a memory limit, the host's memory"
        );
        assert!(
            node.cpus.is_empty() && node.gpus.is_empty() && !node.available.contains_key("ngpus")
        );
    }
}
