//! Tests of counters and messages for limits on queued jobs.

use super::*;
use crate::config::Config;
use crate::model::job::array::Elements;
use crate::sched::fixture::{TestCluster, cluster};

/// Counters of submitted jobs. The cluster and the resources are needed to create jobs.
struct CountedJobs {
    cluster: TestCluster,
    counters: JobCounters,
    resources: Resources,
}

fn counted_jobs(limits: &str) -> CountedJobs {
    let config = Config::parse(limits).unwrap();
    let counters = JobCounters::new(&config.effective_policy().limits, Span::seconds(100));
    CountedJobs {
        cluster: cluster(""),
        counters,
        resources: config.resources(),
    }
}

fn subject(who: &Credentials) -> LimitSubject {
    LimitSubject::new(
        who,
        "staff".to_string(),
        vec!["dev".to_string(), "all".to_string()],
    )
}

impl CountedJobs {
    fn job(&self, id: u64, user: &str, words: &str) -> Job {
        let mut job = self.cluster.job(id, words);
        job.owner.user = user.to_string();
        let words = words
            .split_whitespace()
            .filter_map(|word| word.split_once('='));
        let requested = words.filter(|(name, _)| ["select", "walltime"].contains(name));
        let requested: Vec<_> = requested
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        Arc::make_mut(&mut job.spec).request =
            Arc::new(Request::parse(&requested, &self.resources).unwrap());
        job.life.state = JobState::Queued;
        if let Some(indices) = job.spec.array {
            job.elements
                .get_or_insert_with(|| Arc::new(Elements::new(indices.count())));
        }
        job
    }

    fn with(mut self, id: u64, user: &str, words: &str) -> CountedJobs {
        let job = self.job(id, user, words);
        self.counters.count(&job, subject);
        self
    }

    /// Returns the warnings or the refusal for a submission.
    fn submit(&self, user: &str, words: &str) -> String {
        let job = self.job(99, user, words);
        let admitted = self.counters.admit(
            EnteringJob::New(JobState::Queued),
            &job.spec,
            &subject(&Credentials::of(&job)),
            &self.resources,
        );
        match admitted {
            Ok(notes) => notes.join("; "),
            Err(refusal) => format!("{} {}", refusal.code, refusal.text),
        }
    }
}

/// I19: PBS's text for each kind of limit, and the amounts.
#[test]
fn messages_are_the_texts_of_pbs_with_the_amounts() {
    let refusal_under = |limit: &str| {
        let counted_jobs =
            counted_jobs(&format!("[[limit]]\n{limit}\n")).with(1, "ann", "select=1:ncpus=1");
        counted_jobs.submit("ann", "select=1:ncpus=1")
    };
    let count = "1 of 1 in use, 1 more requested)";
    for (limit, words) in [
        (
            "queue = \"workq\"\nuser = \"*\"\nqueued = { jobs = 1 }",
            "15142 would exceed queue workq's per-user limit (ann: ",
        ),
        (
            "queue = \"workq\"\nuser = \"ann\"\nqueued = { jobs = 1 }",
            "15142 Maximum number of jobs for user ann already in queue workq (ann: ",
        ),
        (
            "queue = \"workq\"\nqueued = { jobs = 1 }",
            "15142 Maximum number of jobs already in queue workq (",
        ),
        (
            "queue = \"workq\"\ngroup = \"*\"\nqueued = { jobs = 1 }",
            "15142 would exceed queue workq's per-group limit (staff: ",
        ),
        (
            "user = \"*\"\nqueued = { jobs = 1 }",
            "15142 would exceed complex's per-user limit (ann: ",
        ),
        (
            "queued = { jobs = 1 }",
            "15142 Maximum number of jobs already in complex (",
        ),
        (
            "queue = \"*\"\nuser = \"*\"\nqueued = { ncpus = 1 }",
            "15143 would exceed per-user limit on resource ncpus in queue workq (ann: ",
        ),
        (
            "user = \"ann\"\nqueued = { ncpus = 1 }",
            "15143 would exceed user ann's limit on resource ncpus in complex (ann: ",
        ),
        (
            "queued = { ncpus = 1 }",
            "15143 would exceed limit on resource ncpus in complex (",
        ),
        (
            "user = \"*\"\nwaiting = { jobs = 1 }",
            "15142 would exceed complex's per-user limit of jobs in 'Q' state (ann: ",
        ),
        (
            "waiting = { jobs = 1 }",
            "15142 Maximum number of jobs in 'Q' state already in complex (",
        ),
        (
            "waiting = { ncpus = 1 }",
            "15143 would exceed limit on resource ncpus in complex for jobs in 'Q' state (",
        ),
        (
            "account = \"*\"\nqueued = { jobs = 1 }",
            "15142 would exceed complex's per-account limit (dev: ",
        ),
    ] {
        assert_eq!(refusal_under(limit), format!("{words}{count}"), "{limit}");
    }
}

#[test]
fn users_are_counted_separately_and_finished_jobs_are_removed() {
    let mut counted_jobs = counted_jobs("[[limit]]\nuser = \"*\"\nqueued = { jobs = 2 }\n")
        .with(1, "ann", "select=1:ncpus=1")
        .with(2, "ann", "select=1:ncpus=1");
    assert!(
        counted_jobs
            .submit("ann", "select=1:ncpus=1")
            .contains("(ann: 2 of 2 in use, 1 more requested)")
    );
    assert_eq!(counted_jobs.submit("bob", "select=1:ncpus=1"), "");
    let mut job = counted_jobs.job(1, "ann", "select=1:ncpus=1");
    job.life.state = JobState::Running;
    counted_jobs.counters.count(&job, subject);
    assert!(
        !counted_jobs.submit("ann", "select=1:ncpus=1").is_empty(),
        "a running job still counts"
    );
    job.life.state = JobState::Finished;
    counted_jobs.counters.count(&job, subject);
    assert_eq!(counted_jobs.submit("ann", "select=1:ncpus=1"), "");
    counted_jobs.counters.forget(JobId::job(2));
    assert!(
        counted_jobs.counters.sums.is_empty() && counted_jobs.counters.credential_groups.is_empty(),
        "{:?}",
        counted_jobs.counters
    );
}

#[test]
fn an_array_counts_as_its_number_of_subjobs() {
    let limits = "[[limit]]\nuser = \"*\"\nqueued = { jobs = 5, mem = \"4gb\" }\n";
    let mut counted_jobs = counted_jobs(limits).with(1, "ann", "select=1:ncpus=1 array=1-4");
    assert!(
        counted_jobs
            .submit("ann", "select=1:ncpus=1 array=1-2")
            .contains("4 of 5 in use, 2 more requested")
    );
    assert_eq!(counted_jobs.submit("ann", "select=1:ncpus=1"), "");
    assert!(
        counted_jobs
            .submit("bob", "select=1:ncpus=1:mem=2gb array=1-3")
            .contains("resource mem in complex (bob: 0kb of")
    );
    let mut array = counted_jobs.job(1, "ann", "select=1:ncpus=1 array=1-4");
    let elements = Arc::make_mut(array.elements.as_mut().unwrap());
    elements.mark(0, 2, crate::model::job::array::SubjobState::Ended(0));
    counted_jobs.counters.count(&array, subject);
    assert_eq!(counted_jobs.submit("ann", "select=1:ncpus=1 array=1-4"), "");
}

#[test]
fn a_job_that_becomes_held_does_not_count_as_waiting() {
    let mut counted_jobs =
        counted_jobs("[[limit]]\nwaiting = { jobs = 1 }\n").with(1, "ann", "select=1:ncpus=1");
    assert!(!counted_jobs.submit("ann", "select=1:ncpus=1").is_empty());
    let mut job = counted_jobs.job(1, "ann", "select=1:ncpus=1");
    job.life.state = JobState::Held;
    counted_jobs.counters.count(&job, subject);
    assert_eq!(counted_jobs.submit("ann", "select=1:ncpus=1"), "");
}

#[test]
fn a_soft_limit_warns_without_refusing() {
    let limits = "[[limit]]\nuser = \"*\"\nqueued_soft = { jobs = 1 }\nqueued = { jobs = 2 }\n";
    let counted_jobs = counted_jobs(limits).with(1, "ann", "select=1:ncpus=1");
    let warning = "warning: soft limit: would exceed complex's per-user limit (ann: 1 of 1 in \
                   use, 1 more requested)";
    assert_eq!(counted_jobs.submit("ann", "select=1:ncpus=1"), warning);
    let counted_jobs = counted_jobs.with(2, "ann", "select=1:ncpus=1");
    assert!(
        counted_jobs
            .submit("ann", "select=1:ncpus=1")
            .starts_with("15142")
    );
}

/// Y24: a job counts toward the limits of its account and of all accounts above.
#[test]
fn a_per_account_limit_applies_to_all_accounts_above() {
    let limits = "[[limit]]\naccount = \"all\"\nqueued = { procseconds = 300 }\n";
    let counted_jobs = counted_jobs(limits).with(1, "ann", "select=1:ncpus=2 walltime=100");
    assert_eq!(
        counted_jobs.submit("bob", "select=1:ncpus=1 walltime=100"),
        ""
    );
    assert!(
        counted_jobs
            .submit("bob", "select=1:ncpus=2")
            .contains("200 of 300 in use, 200 more requested"),
        "the default walltime is 100 s"
    );
}

#[test]
fn a_job_from_another_queue_is_not_counted_twice() {
    let limits = "[[limit]]\nuser = \"*\"\nqueued = { jobs = 1 }\n[[limit]]\nqueue = \"*\"\nqueued = { jobs = 1 }\n";
    let counted_jobs = counted_jobs(limits)
        .with(1, "ann", "select=1:ncpus=1")
        .with(2, "bob", "select=1:ncpus=1 queue=night");
    let moved = |queue: &str| {
        let job = counted_jobs.job(1, "ann", &format!("select=1:ncpus=1 queue={queue}"));
        counted_jobs.counters.admit(
            EnteringJob::Known(job.id),
            &job.spec,
            &subject(&Credentials::of(&job)),
            &counted_jobs.resources,
        )
    };
    assert!(moved("free").is_ok() && moved("workq").is_ok());
    assert_eq!(moved("night").unwrap_err().code, 15142);
}

/// I19: if two jobs swap places, limits are checked for the difference of their amounts.
#[test]
fn swapped_jobs_are_counted_by_the_difference() {
    let limits = "[[limit]]\nqueue = \"night\"\nqueued = { ncpus = 4 }\n[[limit]]\nuser = \"*\"\nqueued = { ncpus = 8 }\n";
    let counted_jobs = counted_jobs(limits)
        .with(1, "ann", "select=1:ncpus=2")
        .with(2, "ann", "select=1:ncpus=3 queue=night");
    let counted_jobs = counted_jobs.with(3, "ann", "select=1:ncpus=3").with(
        4,
        "ann",
        "select=1:ncpus=1 queue=night",
    );
    let enter = |own, ncpus: u32, other: Option<u64>| {
        let job = counted_jobs.job(own, "ann", &format!("select=1:ncpus={ncpus} queue=night"));
        let own = job.id;
        let entering = other.map_or(EnteringJob::Known(own), |other| EnteringJob::InPlaceOf {
            own,
            other: JobId::job(other),
        });
        let admitted = counted_jobs.counters.admit(
            entering,
            &job.spec,
            &subject(&Credentials::of(&job)),
            &counted_jobs.resources,
        );
        admitted.map_err(|refusal| refusal.text)
    };
    assert!(
        enter(1, 2, None)
            .unwrap_err()
            .contains("4 of 4 in use, 2 more requested")
    );
    assert!(enter(1, 2, Some(2)).is_ok() && enter(3, 3, Some(2)).is_ok());
    assert!(
        enter(1, 2, Some(4))
            .unwrap_err()
            .contains("3 of 4 in use, 2 more requested")
    );
    assert!(
        enter(1, 3, Some(2)).unwrap_err().contains("8"),
        "a swap frees nothing of a limit that both jobs count toward"
    );
}

/// I19: altered jobs are checked, too.
#[test]
fn altered_jobs_are_counted_by_the_increase() {
    let limits = "[[limit]]\nuser = \"*\"\nqueued = { ncpus = 8 }\n[[limit]]\nproject = \"p\"\nqueued = { jobs = 0 }\n";
    let counted_jobs = counted_jobs(limits)
        .with(1, "ann", "select=1:ncpus=2")
        .with(2, "ann", "select=1:ncpus=1 array=1-4");
    let altered = |id, words: &str, project: &str| {
        let mut job = counted_jobs.job(id, "ann", words);
        Arc::make_mut(&mut job.spec).project = project.to_string();
        let admitted = counted_jobs.counters.admit(
            EnteringJob::Known(job.id),
            &job.spec,
            &subject(&Credentials::of(&job)),
            &counted_jobs.resources,
        );
        admitted.map_err(|refusal| refusal.text.to_string())
    };
    assert_eq!(altered(1, "select=1:ncpus=4", ""), Ok(vec![]));
    let too_much = "would exceed per-user limit on resource ncpus in complex (ann: 6 of 8 in use, \
                    3 more requested)";
    assert_eq!(
        altered(1, "select=1:ncpus=5", ""),
        Err(too_much.to_string())
    );
    assert!(
        altered(2, "select=1:ncpus=2 array=1-4", "")
            .unwrap_err()
            .contains("6 of 8 in use, 4 more requested")
    );
    assert!(
        altered(1, "select=1:ncpus=1", "p")
            .unwrap_err()
            .contains("project p")
    );
    let counted_jobs = counted_jobs.with(3, "ann", "select=1:ncpus=90");
    let job = counted_jobs.job(1, "ann", "select=1:ncpus=1");
    let less = counted_jobs.counters.admit(
        EnteringJob::Known(job.id),
        &job.spec,
        &subject(&Credentials::of(&job)),
        &counted_jobs.resources,
    );
    assert_eq!(
        less.unwrap(),
        Vec::<String>::new(),
        "a smaller request exceeds nothing"
    );
}

/// Jobs with the largest possible requests.
#[test]
fn sums_do_not_overflow_and_return_to_zero() {
    let huge = "select=1:ncpus=1000000 walltime=9000000000000000 array=1-9";
    let limits = "[[limit]]\nqueued_soft = { ncpus = 1, procseconds = 1 }\n";
    let mut counted_jobs = (1..5).fold(counted_jobs(limits), |counted_jobs, id| {
        counted_jobs.with(id, "ann", huge)
    });
    assert!(
        counted_jobs
            .submit("ann", "select=1:ncpus=1")
            .contains("soft limit: would exceed")
    );
    (1..5).for_each(|id| counted_jobs.counters.forget(JobId::array(id)));
    assert!(
        counted_jobs.counters.sums.is_empty(),
        "{:?}",
        counted_jobs.counters.sums
    );
}

/// I19: held jobs do not count as waiting, neither at submission nor later.
#[test]
fn jobs_submitted_held_do_not_count_as_waiting() {
    let counted_jobs = counted_jobs("[[limit]]\nwaiting = { jobs = 1 }\nqueued = { jobs = 4 }\n")
        .with(1, "ann", "select=1:ncpus=1");
    let is_admitted = |words: &str, state| {
        let job = counted_jobs.job(99, "ann", words);
        counted_jobs
            .counters
            .admit(
                EnteringJob::New(state),
                &job.spec,
                &subject(&Credentials::of(&job)),
                &counted_jobs.resources,
            )
            .is_ok()
    };
    let one = "select=1:ncpus=1";
    assert_eq!(
        [JobState::Queued, JobState::Held, JobState::Waiting].map(|state| is_admitted(one, state)),
        [false, true, true]
    );
    assert_eq!(
        [3, 4].map(|count| is_admitted(&format!("{one} array=1-{count}"), JobState::Held)),
        [true, false]
    );
}

/// P9: held jobs and all subjobs count; only the first jobs are listed.
#[test]
fn usage_is_reported_with_the_jobs_that_count() {
    let limits =
        "[[limit]]\nuser = \"*\"\nqueued = { jobs = 40, ncpus = 90 }\nwaiting = { jobs = 5 }\n";
    let mut counted_jobs = counted_jobs(limits)
        .with(1, "ann", "select=1:ncpus=2")
        .with(2, "ann", "select=1:ncpus=1 array=1-6");
    let mut held = counted_jobs.job(3, "ann", "select=1:ncpus=1");
    held.life.state = JobState::Held;
    counted_jobs.counters.count(&held, subject);
    let counted_jobs = (10..40).fold(counted_jobs, |counted_jobs, id| {
        counted_jobs.with(id, "bob", "select=1:ncpus=1")
    });
    let described = |one: uses::Counted| {
        let by = one.by.iter().map(ToString::to_string).collect::<Vec<_>>();
        (
            one.place,
            one.key.join("/"),
            one.used,
            by.len() as u64 + one.more,
            by.first().cloned().unwrap_or_default(),
        )
    };
    let expected = [
        (0, "ann", 8, 3, "1"),
        (0, "bob", 30, 30, "10"),
        (1, "ann", 9, 3, "1"),
        (1, "bob", 30, 30, "10"),
        (2, "ann", 7, 2, "1"),
        (2, "bob", 30, 30, "10"),
    ];
    let expected = expected.map(|(place, key, used, jobs, first)| {
        (place, key.to_string(), used, jobs, first.to_string())
    });
    assert_eq!(
        counted_jobs
            .counters
            .uses()
            .into_iter()
            .map(described)
            .collect::<Vec<_>>(),
        expected
    );
    assert_eq!(
        counted_jobs.counters.uses()[1].by.len(),
        crate::model::limit::usage::LimitUse::MOST
    );
}

#[test]
fn jobs_without_the_resource_pass_an_exceeded_limit() {
    let counted_jobs = counted_jobs("[[limit]]\nqueued = { ngpus = 1 }\n").with(
        1,
        "ann",
        "select=1:ncpus=1:ngpus=2",
    );
    assert_eq!(counted_jobs.submit("bob", "select=1:ncpus=1"), "");
    assert!(
        counted_jobs
            .submit("bob", "select=1:ncpus=1:ngpus=1")
            .contains("2 of 1 in use, 1 more requested")
    );
}

#[test]
fn running_subjobs_count_as_queued_and_only_once() {
    let mut counted_jobs = counted_jobs("[[limit]]\nqueued = { jobs = 4 }\n");
    let mut array = counted_jobs.job(1, "ann", "select=1:ncpus=1 array=1-4");
    Arc::make_mut(array.elements.as_mut().unwrap()).mark(
        0,
        1,
        crate::model::job::array::SubjobState::Begun,
    );
    counted_jobs.counters.count(&array, subject);
    let mut element = counted_jobs.job(1, "ann", "select=1:ncpus=1");
    element.id = JobId::element(1, 1);
    counted_jobs.counters.count(&element, subject);
    assert!(
        counted_jobs
            .submit("bob", "select=1:ncpus=1")
            .contains("(4 of 4 in use, 1 more requested)")
    );
}

#[test]
fn groups_matter_only_if_a_limit_depends_on_them() {
    let uses_groups = |limits: &str| counted_jobs(limits).counters.uses_groups();
    let [of_users, of_groups] =
        ["user", "group"].map(|who| format!("[[limit]]\n{who} = \"*\"\nqueued = {{ jobs = 4 }}\n"));
    assert!(
        !uses_groups("")
            && !uses_groups(&of_users)
            && uses_groups(&of_groups)
            && uses_groups(&format!("{of_users}{of_groups}"))
    );
}
