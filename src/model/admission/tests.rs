//! Tests of queue admission.

use super::*;
use crate::config::Config;
use crate::model::attribute;
use crate::model::job::event::Event;
use crate::model::job::{Digest, Job, JobProgram, Life, Owner};
use crate::model::job_id::JobId;
use crate::model::text::Text;
use crate::model::time::{Span, Time};
use crate::sched::fixture::moment;

/// Site configuration, and the queues that are full.
struct Site {
    config: Config,
    /// Queues that have reached a limit.
    full: Vec<&'static str>,
}

fn site(text: &str) -> Site {
    Site {
        config: Config::parse(text).unwrap(),
        full: Vec::new(),
    }
}

impl Site {
    fn with_admission<T>(&self, ask: impl FnOnce(&QueueAdmission) -> T) -> T {
        let room = |spec: &Spec| {
            if self.full.contains(&spec.queue.as_str()) {
                Err(Refusal::too_many("full".to_string()))
            } else {
                Ok(Vec::new())
            }
        };
        ask(&QueueAdmission {
            queues: &self.config.queues(),
            resources: &self.config.resources(),
            qualities: &self.config.policy.qualities,
            visitor: Visitor {
                user: "ann",
                group: &|| "users".to_string(),
                is_member: &|_| false,
                host: "head",
            },
            room: &room,
        })
    }

    /// Returns the queue and the request of an admitted job, or the refusal.
    fn enter(&self, words: &str) -> Result<String, String> {
        let spec = self.spec(words);
        let entered = self.with_admission(|admission| admission.enter(&spec, JobState::Queued));
        let shown = |entered: Entered| {
            let list = &entered.spec.request.list;
            let amount = |name: &str| {
                list.get(name)
                    .map(|value| format!(" {name}={value}"))
                    .unwrap_or_default()
            };
            format!(
                "{}{}{}{}",
                entered.spec.queue,
                amount("ncpus"),
                amount("mem"),
                amount("walltime")
            )
        };
        entered
            .map(shown)
            .map_err(|refusal| format!("{} {}", refusal.code, refusal.text))
    }

    /// Parses `queue=q ncpus=4 qos=standby array=1-3`.
    fn spec(&self, words: &str) -> Spec {
        let setting = |word: &str| {
            let (name, value) = word.split_once('=').unwrap();
            match name {
                "queue" | "qos" => attribute::AttributeSetting::new(name, value),
                "array" => attribute::AttributeSetting::new("array_indices_submitted", value),
                resource => attribute::AttributeSetting::resource(resource, value),
            }
        };
        let settings: Vec<_> = words.split_whitespace().map(setting).collect();
        let origin = attribute::SubmitContext {
            program: JobProgram::Script(Digest([0; 32])),
            environ: Digest([0; 32]),
            workdir: Text::from("/"),
            submit_host: "head".to_string(),
            arguments: Text::default(),
        };
        let context = attribute::Context {
            resources: &self.config.resources(),
            rights: attribute::Rights {
                privileged: true,
                running: false,
            },
            owner: "ann",
            server: "head",
            default_queue: Some("workq"),
            policy: &self.config.effective_policy(),
            is_member: &|_| false,
        };
        attribute::submit(&settings, origin, &context).unwrap().spec
    }
}

const BOUNDED: &str = "[[queue]]\nname = \"workq\"\nresources_min = { ncpus = 2, walltime = \"0:10:00\" }\n\
                       resources_max = { ncpus = 4, walltime = \"1:00:00\" }\nresources_default = { ncpus = 3 }\n\
                       default_chunk = { mem = \"1gb\" }\n";

#[test]
fn a_job_within_the_bounds_of_a_queue_gets_the_defaults() {
    let site = site(BOUNDED);
    assert_eq!(
        site.enter("").unwrap(),
        "workq ncpus=3 mem=1gb walltime=01:00:00"
    );
    assert_eq!(
        site.enter("ncpus=4 walltime=0:10:00").unwrap(),
        "workq ncpus=4 mem=1gb walltime=00:10:00"
    );
    assert_eq!(
        site.enter("select=2:ncpus=2").unwrap(),
        "workq ncpus=4 mem=2gb walltime=01:00:00"
    );
}

#[test]
fn a_refusal_names_the_resource_the_value_the_bound_and_the_queue() {
    let site = site(BOUNDED);
    let error = |words: &str| site.enter(words).unwrap_err();
    let more = "15036 Job violates queue and/or server resource limits: ncpus 5 is above the \
                maximum 4 of queue workq";
    assert!(error("ncpus=5").starts_with(more), "{}", error("ncpus=5"));
    assert!(error("select=3:ncpus=2").contains("ncpus 6 is above"));
    assert!(error("ncpus=1").contains("ncpus 1 is below the minimum 2 "));
    assert!(error("walltime=60").contains("walltime 00:01:00 is below the minimum 00:10:00 "));
    assert!(error("walltime=1:00:01").contains("request less, or another queue (-q)"));
    assert!(error("min_walltime=1").contains("walltime 00:00:01 is below"));
    let gpus = self::site("[[queue]]\nname = \"workq\"\nresources_min = { ngpus = 1 }\n");
    assert!(
        gpus.enter("")
            .unwrap_err()
            .contains("no ngpus requested, below the minimum 1")
    );
    assert!(gpus.enter("select=1:ngpus=1").is_ok());
}

/// F4.
#[test]
fn an_exempt_quality_ignores_the_bounds_of_queues() {
    let site = site(BOUNDED);
    assert_eq!(
        site.enter("qos=standby ncpus=64 walltime=5:00:00").unwrap(),
        "workq ncpus=64 mem=1gb walltime=05:00:00"
    );
    assert!(site.enter("qos=normal walltime=5:00:00").is_err());
}

#[test]
fn a_queue_refuses_jobs_that_its_settings_exclude() {
    let site = site(
        "[[queue]]\nname = \"shut\"\nenabled = false\n[[queue]]\nname = \"few\"\nmax_array_size = 3\n\
         [[queue]]\nname = \"inner\"\nfrom_route_only = true\n[[queue]]\nname = \"own\"\nacl_users = [\"bob\"]\n",
    );
    let code = |words: &str| site.enter(words).err().map(|error| error[..5].to_string());
    assert_eq!(code("queue=shut").as_deref(), Some("15021"));
    assert_eq!(
        (
            code("queue=few array=1-3"),
            code("queue=few array=1-4").as_deref()
        ),
        (None, Some("15107"))
    );
    assert_eq!(code("queue=inner").as_deref(), Some("15022"));
    assert_eq!(code("queue=own").as_deref(), Some("15007"));
    assert_eq!(code("queue=none").as_deref(), Some("15018"));
}

const ROUTES: &str = "[[queue]]\nname = \"in\"\nroute_destinations = [\"short\", \"on\"]\n\
                      [[queue]]\nname = \"on\"\nfrom_route_only = true\nroute_destinations = [\"short\", \"long\"]\n\
                      [[queue]]\nname = \"short\"\nresources_max = { walltime = \"1:00:00\" }\n\
                      [[queue]]\nname = \"long\"\nresources_min = { ncpus = 2 }\n";

#[test]
fn a_job_is_routed_to_the_first_accepting_destination() {
    let site = site(ROUTES);
    assert_eq!(
        site.enter("queue=in").unwrap(),
        "short ncpus=1 walltime=01:00:00"
    );
    assert_eq!(
        site.enter("queue=in walltime=2:00:00 ncpus=2").unwrap(),
        "long ncpus=2 walltime=02:00:00"
    );
    let error = site.enter("queue=in walltime=2:00:00").unwrap_err();
    assert!(
        error.starts_with("15039 Job rejected by all possible destinations: short: "),
        "{error}"
    );
    assert!(error.contains("; on: Job rejected"), "{error}");
}

#[test]
fn a_job_waits_in_a_routing_queue_for_temporary_refusals() {
    let mut site = site(ROUTES);
    site.full = vec!["short"];
    assert_eq!(
        site.enter("queue=in").unwrap(),
        "in ncpus=1",
        "the job gets no defaults of the full destination"
    );
    assert_eq!(site.enter("queue=in ncpus=2").unwrap(), "long ncpus=2");
    let spec = site.spec("queue=in ncpus=2");
    let held = site
        .with_admission(|admission| admission.enter(&spec, JobState::Held))
        .unwrap();
    assert_eq!(held.spec.queue, "in");
}

fn waiting(site: &Site, words: &str) -> Job {
    let owner = Owner {
        user: "ann".to_string(),
        uid: 1,
        gid: 1,
    };
    let life = Life::new(Default::default(), 0, Time(0));
    let mut job = Job {
        id: JobId::job(1),
        owner,
        spec: Arc::new(site.spec(words)),
        life,
        elements: None,
    };
    job.apply(&Event::Submitted, moment(0));
    job
}

#[test]
fn routing_is_retried_until_the_lifetime_ends() {
    let mut site = site(&format!(
        "{ROUTES}[[queue]]\nname = \"brief\"\nroute_destinations = [\"short\"]\nroute_lifetime = \"1m\"\n"
    ));
    let turn = |site: &Site, queue: &str, seconds: i64| {
        let (job, queues) = (
            waiting(site, &format!("queue={queue}")),
            site.config.queues(),
        );
        let queue = queues.iter().find(|known| known.name == queue).unwrap();
        site.with_admission(|admission| {
            admission.turn(&job, queue, Time(0) + Span::seconds(seconds))
        })
    };
    site.full = vec!["short"];
    assert_eq!(turn(&site, "in", 0), RouteOutcome::Wait(Span::seconds(30)));
    assert_eq!(
        turn(&site, "brief", 40),
        RouteOutcome::Wait(Span::seconds(20))
    );
    assert_eq!(turn(&site, "brief", 60), RouteOutcome::Delete);
    site.full.clear();
    assert!(
        matches!(turn(&site, "brief", 59), RouteOutcome::PassOn(spec) if spec.queue == "short")
    );
}

#[test]
fn stopped_routing_queues_and_held_jobs_are_not_routed() {
    let site = site(&format!(
        "{ROUTES}[[queue]]\nname = \"shut\"\nstarted = false\nroute_destinations = [\"short\"]\n\
         [[queue]]\nname = \"brief\"\nroute_destinations = [\"short\"]\n"
    ));
    let turn = |queue: &str, state: JobState| {
        let (mut job, queues) = (
            waiting(&site, &format!("queue={queue}")),
            site.config.queues(),
        );
        job.life.state = state;
        let queue = queues.iter().find(|known| known.name == queue).unwrap();
        site.with_admission(|admission| admission.turn(&job, queue, Time(0)))
    };
    assert!(matches!(
        turn("brief", JobState::Queued),
        RouteOutcome::PassOn(_)
    ));
    let pause = RouteOutcome::Wait(Span::seconds(30));
    assert_eq!(
        [
            turn("brief", JobState::Held),
            turn("shut", JobState::Queued)
        ],
        [pause.clone(), pause]
    );
}

#[test]
fn errors_in_routes_name_the_line() {
    let error = |text: &str| Config::parse(text).unwrap_err().to_string();
    let queue = |name: &str, to: &str| {
        format!("[[queue]]\nname = \"{name}\"\nroute_destinations = [\"{to}\"]\n")
    };
    let unknown = error(&queue("a", "nosuch"));
    assert!(unknown.starts_with("line 3: ") && unknown.contains("no queue named `nosuch`"));
    let circle = error(&format!(
        "{}{}{}",
        queue("c", "a"),
        queue("a", "b"),
        queue("b", "a")
    ));
    assert!(
        circle.contains("a cycle: remove one of the destinations in c -> a -> b -> a"),
        "{circle}"
    );
    assert!(
        Config::parse(&queue("a", "workq")).is_ok(),
        "the default queue always exists"
    );
}

/// M27: QDEF, USERESERVED and DEDICATED.
#[test]
fn a_job_gets_the_default_quality_of_the_queue_and_its_flags() {
    let site = site(
        "[[queue]]\nname = \"night\"\n[[qos]]\nname = \"dark\"\ndefault_for = { queues = [\"night\"] }\n\
         flags = [\"DEDICATED\", \"USERESERVED:moon\"]\n",
    );
    let entered = |words: &str| {
        let spec = site.spec(words);
        site.with_admission(|admission| admission.enter(&spec, JobState::Queued))
            .unwrap()
            .spec
    };
    let night = entered("queue=night");
    assert_eq!(
        (night.qos.as_deref(), night.reservation.as_deref()),
        (Some("dark"), Some("moon"))
    );
    assert_eq!(
        night.placement.access,
        Some(crate::model::request::placement_policy::NodeAccess::SingleJob)
    );
    assert_eq!(entered("queue=night qos=normal").reservation, None);
    assert_eq!(entered("").qos, None);
}

/// M27: routing and `qmove` check the permission for a quality in the new queue.
#[test]
fn a_quality_is_checked_in_every_queue() {
    let site = site(
        "[[queue]]\nname = \"in\"\nroute_destinations = [\"day\", \"night\"]\n[[queue]]\nname = \"day\"\n\
         [[queue]]\nname = \"night\"\n[[qos]]\nname = \"dark\"\nqueues = [\"in\", \"night\"]\n\
         [[qos]]\nname = \"gift\"\nqueues = [\"elsewhere\"]\n",
    );
    let entered = |words: &str| site.enter(words).unwrap();
    assert_eq!(
        [entered("queue=in"), entered("queue=in qos=dark")],
        ["day ncpus=1", "night ncpus=1"]
    );
    assert_eq!(
        entered("queue=in qos=gift"),
        "day ncpus=1",
        "a quality assigned by an operator is kept in all queues"
    );
    let keeps = |words: &str, queue: &str| {
        let spec = site.spec(words);
        site.with_admission(|admission| admission.keep_quality(&spec, queue))
            .map_err(|refusal| refusal.text)
    };
    assert!(
        keeps("queue=night qos=dark", "day")
            .unwrap_err()
            .contains("qos_denied")
    );
    assert_eq!(
        [
            keeps("queue=night qos=dark", "in"),
            keeps("queue=night", "day")
        ],
        [Ok(()), Ok(())]
    );
}

/// M27.
#[test]
fn the_default_quality_of_a_routing_queue_stays_with_the_job() {
    let mut site = site(
        "[[queue]]\nname = \"in\"\nroute_destinations = [\"on\"]\n[[queue]]\nname = \"on\"\n\
         route_destinations = [\"day\"]\n[[queue]]\nname = \"day\"\n[[qos]]\nname = \"calm\"\n\
         default_for = { queues = [\"in\"] }\n[[qos]]\nname = \"late\"\ndefault_for = { queues = [\"on\", \"day\"] }\n",
    );
    let spec = site.spec("queue=in");
    let enter = |site: &Site| {
        site.with_admission(|admission| admission.enter(&spec, JobState::Queued))
            .unwrap()
            .spec
    };
    let direct = enter(&site);
    assert_eq!(
        (direct.queue.as_str(), direct.qos.as_deref()),
        ("day", Some("calm"))
    );
    site.full = vec!["day"];
    let waits = Job {
        spec: Arc::new(enter(&site)),
        ..waiting(&site, "queue=in")
    };
    assert_eq!(waits.spec.queue, "in");
    site.full.clear();
    let queues = site.config.queues();
    let queue = queues.iter().find(|queue| queue.name == "in").unwrap();
    assert_eq!(
        site.with_admission(|admission| admission.turn(&waits, queue, Time(0))),
        RouteOutcome::PassOn(Box::new(direct))
    );
    let on = site.spec("queue=on");
    let on = site
        .with_admission(|admission| admission.enter(&on, JobState::Queued))
        .unwrap();
    assert_eq!(on.spec.qos.as_deref(), Some("late"));
}

#[test]
fn a_routing_queue_without_destinations_is_named_in_the_refusal() {
    let site = site(ROUTES);
    let queue = Queue {
        route: Some(Default::default()),
        ..Queue::named("new")
    };
    let error = site
        .with_admission(|admission| admission.pass_on(&site.spec("queue=in"), &queue))
        .unwrap_err()
        .text;
    assert!(
        error.contains(
            "all possible destinations: queue new has no destinations (qmgr -c 'set queue new \
             route_"
        ),
        "{error}"
    );
}

/// M27: QDEF of a group. In this test, every user is in the group `users`.
#[test]
fn a_job_gets_the_default_quality_of_the_owners_group() {
    let of = |group: &str| {
        let site = site(&format!(
            "[[qos]]\nname = \"ours\"\ndefault_for = {{ groups = [\"{group}\"] }}\n"
        ));
        site.with_admission(|admission| admission.enter(&site.spec(""), JobState::Queued))
            .unwrap()
            .spec
            .qos
    };
    assert_eq!((of("users"), of("staff")), (Some("ours".to_string()), None));
}

#[test]
fn bounds_compare_fractions_and_require_equal_texts() {
    let own = |name: &str, kind: &str| {
        format!("[[resource]]\nname = \"{name}\"\ntype = \"{kind}\"\nhost_level = false\n")
    };
    let queue = "[[queue]]\nname = \"workq\"\nresources_max = { part = 0.5, tag = \"a\" }\n";
    let site = site(&format!(
        "{}{}{queue}",
        own("part", "float"),
        own("tag", "string")
    ));
    assert!(site.enter("part=0.5 tag=a").is_ok() && site.enter("part=0.25").is_ok());
    assert!(
        site.enter("part=0.75")
            .unwrap_err()
            .contains("part 0.75 is above the maximum 0.5")
    );
    assert!(site.enter("tag=b").unwrap_err().contains("tag b"));
}
