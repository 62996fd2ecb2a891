//! What qmgr's page says of its grammar, and the pages of the commands that open and close queues.

use super::extras::On::Programs;
use super::extras::Part::{Example, Term, Text};
use super::extras::{Extra, On};

const QMGR: On = Programs(&["qmgr"]);

/// How commands are written.
pub(super) const GRAMMAR: Extra = Extra {
    on: QMGR,
    heading: "COMMANDS",
    parts: &[
        Text(
            "verb object [names] [attribute[.resource] operator value][, ...]: any beginning of a verb or an object will \
             do. ; stands between commands, a # begins a remark, a \\ at the end of a line lets it go on. Values with \
             blanks or commas stand in quotes. Names are apart by commas; @default stands for all of a kind.",
        ),
        Term(
            "create, delete",
            "Makes a queue or a resource, or takes it away. A queue with jobs stays, and so does a \
              resource that is spoken of. A queue is created closed: set enabled and started. A node comes with its noded; \
              one whose noded is gone is forgotten with delete, unless lanai.toml names it or anything holds of it.",
        ),
        Term(
            "set, unset",
            "With = a value, += and -= for what is added or taken away: names of a list, entries of a \
              limit, numbers. All that a command says of an object is done, or nothing.",
        ),
        Term(
            "list, print",
            "Shows objects; print in commands that make the same again.",
        ),
        Term(
            "import, export",
            "import hook NAME application/x-executable default FILE has a hook run a copy of this program, which \
              schedd keeps; export shows it, or writes it into a file.",
        ),
        Term(
            "active",
            "Says which objects commands without a name are about.",
        ),
        Term("help, history, quit", "About qmgr itself."),
    ],
};

/// What can be said.
pub(super) const OBJECTS: Extra = Extra {
    on: QMGR,
    heading: "OBJECTS",
    parts: &[
        Term(
            "server",
            "scheduling, default_queue, managers, operators, limits, resources_default, default_chunk, \
              resources_max, resources_available (of resources with the flag q), max_array_size, \
              resv_users, resv_max_number, resv_max_duration, resv_max_share, scheduler_iteration, \
              backfill_depth, job_sort_formula, job_sort_formula_threshold, job_history_enable, job_history_duration, restrict_res_to_release_on_suspend (releases in [preemption]), mailer, \
              mail_from, comment. backfill_depth and job_history_duration are shown once somebody has said them; \
              schedd --check shows what holds in any case. Kept and shown, without any effect: acl_roots, log_events, \
              flatuid, node_fail_requeue (jobs of a silent node are its own until it answers or was rebooted, however \
              long that takes), resend_term_delay, the pbs_license_... of PBS, max_concurrent_provision, \
              clear_topjob_estimates_enable, max_job_sequence_id.",
        ),
        Term(
            "sched",
            "The only scheduler, default: scheduling and scheduler_iteration (the server's, too), \
              job_sort_formula_threshold, and, for [preemption] of lanai.toml(5), preempt_queue_prio (express), \
              preempt_prio (levels, as \"express_queue, normal_jobs\"), preempt_order (action, as \"SCR 80 SC 50 S\") and \
              preempt_sort (victims: min_time_since_start for newest). They say how jobs make way; that they do, by levels \
              or otherwise, triggers in lanai.toml says. sched_host, pbs_version, throughput_mode (always True: cycles never wait for a \
              job to begin) and state are told. What else PBS has here is refused: partitions, folders of a scheduler, \
              sched_cycle_length, job_run_wait, placement sets, log_events.",
        ),
        Term(
            "queue",
            "queue_type (Execution, Route), enabled, started, Priority, limits, resources_max, resources_min, \
              resources_default, default_chunk, acl_users, acl_groups, acl_hosts (each with acl_..._enable), \
              from_route_only, nested, route_destinations, route_held_jobs, route_waiting_jobs, route_retry_time, \
              route_lifetime, max_array_size, backfill_depth, comment.",
        ),
        Term(
            "node",
            "state (offline, free), comment, resources_available, Priority, sharing, max_running, max_user_run.",
        ),
        Term(
            "resource",
            "type (long, size, float, boolean, string, string_array) and flag: h belongs to hosts, n is \
              taken by jobs from their nodes, q from what the server has, r and i cannot be asked for. total and used, \
              by operators or a script of the site's, of what the server has: how much is there, and how much of that \
              others use, as a license server says; kept apart from what is configured, and shown by qstat --resources.",
        ),
        Term(
            "hook",
            "event (queuejob, modifyjob, runjob, execjob_begin, execjob_prologue, execjob_epilogue, execjob_end, \
              exechost_periodic; several in quotes, apart by commas), enabled, order, alarm and freq (seconds), user \
              (pbsadmin, pbsuser), fail_action (none, offline_vnodes). For root and schedd's user alone.",
        ),
        Term(
            "limits",
            "max_run, max_run_soft, max_run_res, max_run_res_soft, max_queued, max_queued_res, \
              queued_jobs_threshold, queued_jobs_threshold_res, with entries [u:user=N], [g:group=N], [p:project=N] and \
              [o:PBS_ALL=N]; PBS_GENERIC is each. A name with blanks, commas or brackets stands in quotes: \
              '[g:\"domain users\"=4]'. Who has an entry of his own has it in place of that of each, in max_run and \
              max_run_soft each for itself. Or in the old style max_running, max_queuable, max_user_run, \
              max_group_run, max_user_res, max_group_res: not both on one object.",
        ),
        Text(
            "Managers may say anything; operators open and close queues and take nodes out of service. What PBS has and \
             what changes nothing here is kept and shown, and qmgr says so. See lanai.toml(5) for what each means.",
        ),
    ],
};

/// How it ends.
pub(super) const STATUS: Extra = Extra {
    on: QMGR,
    heading: "EXIT STATUS",
    parts: &[
        Term(
            "0",
            "All was done, or commands were read from standard input: what of them failed is said.",
        ),
        Term("1", "No such command, or nothing of that name to be shown."),
        Term(
            "2",
            "No object, or none of that kind; with -a, a command that was read has failed.",
        ),
        Term("3, 4", "No server answers; a command is malformed."),
        Term(
            "others",
            "The server's error number, mod 256: 159 for who may not.",
        ),
    ],
};

/// What an administrator does with it.
pub(super) const EXAMPLES: Extra = Extra {
    on: QMGR,
    heading: "EXAMPLES",
    parts: &[
        Example(
            "A queue in which nobody has more than four running jobs, but ann ten:",
            &[
                "qmgr -c 'create queue gpu queue_type = e, enabled = t, started = t'",
                "qmgr -c 'set queue gpu max_run = \"[u:PBS_GENERIC=4],[u:ann=10]\"'",
            ],
        ),
        Example(
            "All that was said, kept, and said to another installation:",
            &["qmgr -c 'print server' > said", "qmgr < said"],
        ),
    ],
};

/// The pages of four small commands.
pub(super) const GATES: Extra = Extra {
    on: Programs(&["qenable", "qdisable", "qstart", "qstop"]),
    heading: "EXIT STATUS",
    parts: &[
        Term("0", "Done."),
        Term("1", "A wrong command line."),
        Term(
            "2",
            "A queue stays as it was, and standard error says why; or schedd does not answer.",
        ),
    ],
};
