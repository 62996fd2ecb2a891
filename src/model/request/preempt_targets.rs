//! Preemption targets, `-l preempt_targets=`: the jobs that a job may preempt.

/// One word of `preempt_targets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptTarget<'a> {
    /// `Queue=workq`: jobs in a queue.
    Queue(&'a str),
    /// `Resource_List.ncpus=4`: jobs that request this value of a resource.
    Resource(&'a str, &'a str),
    /// `None`: no jobs.
    Nobody,
}

impl<'a> PreemptTarget<'a> {
    /// Parses a word; None if the word is invalid.
    pub fn parse(word: &'a str) -> Option<PreemptTarget<'a>> {
        match word.trim().split_once('=') {
            None if word.trim().eq_ignore_ascii_case("none") => Some(PreemptTarget::Nobody),
            Some((kind, name)) if kind.eq_ignore_ascii_case("queue") && !name.is_empty() => {
                Some(PreemptTarget::Queue(name))
            }
            Some((kind, value)) if !value.is_empty() => {
                let (list, name) = kind.split_once('.').filter(|(_, name)| !name.is_empty())?;
                list.eq_ignore_ascii_case("resource_list")
                    .then_some(PreemptTarget::Resource(name, value))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_queues_resources_or_none() {
        assert_eq!(
            PreemptTarget::parse("QUEUE=a"),
            Some(PreemptTarget::Queue("a"))
        );
        assert_eq!(
            PreemptTarget::parse(" Resource_List.mem=2gb"),
            Some(PreemptTarget::Resource("mem", "2gb"))
        );
        assert_eq!(PreemptTarget::parse("NONE"), Some(PreemptTarget::Nobody));
        for wrong in [
            "",
            "a",
            "queue=",
            "server=x",
            "Resource_List.=1",
            "Resource_List=1",
            "Resource_List.mem=",
        ] {
            assert_eq!(PreemptTarget::parse(wrong), None, "{wrong}");
        }
    }
}
