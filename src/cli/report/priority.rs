//! `qstat --priority`: the priority of jobs, its components, and the queue in order. Corresponds to
//! Slurm's `sprio`.

use super::ReportContext;
use crate::cli::client::exit::Failure;
use crate::cli::output::table;
use crate::model::job_id::JobId;
use crate::model::report::priority_score::{PriorityScore, ScorePart};
use crate::model::report::queue_place::{Neighbours, OrderDifference, QueueTurn};
use crate::shown::attributes::{AttributeDisplay, Attributes};
use crate::shown::comment;
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use crate::wire::message::JobRecord;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;

/// Maximum number of jobs in the table of the queue. JSON lists all jobs.
const LISTED: u64 = 100;

/// Writes the queue in order: all jobs as JSON, or the first jobs as a table.
pub fn queue(context: &mut ReportContext, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        return document_of_queue(context, out);
    }
    let (mut listed, mut places, mut by) = (Vec::new(), 0, None);
    context.parts(ForecastQuery::Queue(Some(LISTED)), &mut |_, answer| {
        if let ForecastAnswer::Queue {
            all,
            formula,
            turns,
            ..
        } = answer
        {
            (places, by) = (all, formula);
            listed.extend(turns);
        }
        Ok(())
    })?;
    let table = table(&listed, places, &context.server.name);
    out.write_all((table + &formula_line("", by.as_deref())).as_bytes())
        .map_err(Failure::from)
}

/// Writes the queue as JSON, part by part, because a queue may be long.
fn document_of_queue(context: &mut ReportContext, out: &mut dyn Write) -> Result<(), Failure> {
    let mut document = context.document();
    context.parts(ForecastQuery::Queue(None), &mut |context, answer| {
        let ForecastAnswer::Queue {
            all,
            formula,
            turns,
            ..
        } = answer
        else {
            return Ok(());
        };
        for turn in &turns {
            let mut data = data(turn);
            data["of"] = all.into();
            data["formula"] = formula.clone().into();
            document.add_object(
                "Jobs",
                &turn.priority.job.full(&context.server.name),
                &attributes(turn, data),
            );
        }
        out.write_all(&document.take()).map_err(Failure::from)
    })?;
    out.write_all(&document.end()).map_err(Failure::from)
}

/// The priorities of the jobs `ids`, as text or JSON. Unknown jobs are added to the failures.
pub fn report(
    context: &mut ReportContext,
    ids: &[JobId],
    json: bool,
    failures: &mut Vec<Failure>,
) -> Result<Vec<u8>, Failure> {
    let (mut waiting, mut all, mut formula) = (Vec::new(), 0, None);
    for answer in context.ask(ForecastQuery::Places(ids.to_vec()))? {
        if let ForecastAnswer::Placed {
            all: places,
            formula: by,
            places: part,
            ..
        } = answer
        {
            (all, formula) = (places, by);
            waiting.extend(part);
        }
    }
    let known: BTreeSet<JobId> = waiting.iter().map(|place| place.own.priority.job).collect();
    let others: Vec<JobId> = ids
        .iter()
        .filter(|id| !known.contains(id))
        .copied()
        .collect();
    let records = context.records(&others)?;
    let found: BTreeSet<JobId> = records.iter().map(|record| record.job.id).collect();
    failures.extend(
        others
            .iter()
            .filter(|id| !found.contains(id))
            .map(|id| context.unknown(*id)),
    );
    let view = PriorityView {
        context,
        all,
        formula,
    };
    if json {
        return Ok(view.document(&waiting, &records));
    }
    let texts = waiting
        .iter()
        .map(|place| view.text(place))
        .chain(records.iter().map(|record| view.other(record)));
    Ok(texts.collect::<Vec<_>>().join("\n").into_bytes())
}

struct PriorityView<'a> {
    context: &'a ReportContext,
    /// The number of waiting jobs in all queues.
    all: u64,
    /// The formula that orders the queue; None if the order has no formula.
    formula: Option<String>,
}

impl PriorityView<'_> {
    fn id(&self, job: JobId) -> String {
        job.full(&self.context.server.name)
    }

    fn text(&self, neighbours: &Neighbours) -> String {
        let Neighbours { own, above, below } = neighbours;
        let account = own
            .account
            .as_ref()
            .map(|account| format!(", account {account}"))
            .unwrap_or_default();
        let (id, user, queue) = (self.id(own.priority.job), &own.user, &own.queue);
        let mut out = format!(
            "Job {id} ({user}, queue {queue}{account}): place {} of {}\n",
            own.rank, self.all
        );
        out += &parts(&own.priority.parts);
        out += &formula_line("  ", self.formula.as_deref());
        if let Some(cluster) = &own.cluster {
            let _ = writeln!(
                out,
                "  First:       on nodes of cluster {cluster}, ahead of jobs of all other clusters"
            );
        }
        if !own.precedence.is_empty() {
            let _ = writeln!(out, "  Tier:        {}", own.precedence);
        }
        let _ = writeln!(out, "  Score:       {}", short(own.priority.score));
        let above = self.neighbour_text(own, above.as_ref(), true);
        let below = self.neighbour_text(own, below.as_ref(), false);
        let _ = writeln!(out, "  Preceded by: {above}\n  Followed by: {below}");
        out
    }

    /// The neighbor `turn` of the job `own`, and how the two differ. `precedes` is true for the
    /// neighbor ahead of `own`.
    fn neighbour_text(&self, own: &QueueTurn, turn: Option<&QueueTurn>, precedes: bool) -> String {
        let Some(turn) = turn else {
            return "no job".to_string();
        };
        let differences = own.differences(turn);
        let sentences: Vec<String> = differences
            .iter()
            .map(|difference| sentence(difference, precedes))
            .collect();
        let (rank, id, score) = (
            turn.rank,
            self.id(turn.priority.job),
            short(turn.priority.score),
        );
        format!(
            "job {id} of {} (place {rank}, score {score}): {}",
            turn.user,
            sentences.join("; ")
        )
    }

    /// The text for a job that is not waiting to be scheduled.
    fn other(&self, record: &JobRecord) -> String {
        let job = &record.job;
        let comment = comment::of(record, &self.context.server);
        let head = format!(
            "Job {} ({}, queue {}): {comment}\n",
            self.id(job.id),
            job.owner.user,
            job.spec.queue
        );
        match job.life.run.as_ref().and_then(|run| run.score) {
            Some(score) => format!("{head}  Score: {} when the job started\n", short(score)),
            None => head,
        }
    }

    fn document(&self, waiting: &[Neighbours], others: &[JobRecord]) -> Vec<u8> {
        let mut document = self.context.document();
        for Neighbours { own, above, below } in waiting {
            let mut data = data(own);
            data["of"] = self.all.into();
            data["formula"] = self.formula.clone().into();
            data["before"] = self.neighbour(own, above.as_ref());
            data["after"] = self.neighbour(own, below.as_ref());
            document.add_object("Jobs", &self.id(own.priority.job), &attributes(own, data));
        }
        for record in others {
            let mut attributes = Attributes::default();
            attributes.text("Job_Owner", record.job.owner.user.as_str());
            attributes.text("comment", comment::of(record, &self.context.server));
            let score = record.job.life.run.as_ref().and_then(|run| run.score);
            attributes.add(
                "priority",
                AttributeDisplay::Data(json!({ "score_at_start": score })),
            );
            document.add_object("Jobs", &self.id(record.job.id), &attributes);
        }
        document.end()
    }

    fn neighbour(&self, own: &QueueTurn, turn: Option<&QueueTurn>) -> Value {
        let Some(turn) = turn else { return Value::Null };
        let mut data = data(turn);
        data["job"] = self.id(turn.priority.job).into();
        data["Job_Owner"] = turn.user.as_str().into();
        data["differences"] = own.differences(turn).iter().map(difference).collect();
        data
    }
}

fn attributes(turn: &QueueTurn, data: Value) -> Attributes<'_> {
    let mut attributes = Attributes::default();
    attributes.text("Job_Owner", turn.user.as_str());
    attributes.text("queue", turn.queue.as_str());
    attributes.text_if("Account_Name", turn.account.as_deref());
    attributes.add("priority", AttributeDisplay::Data(data));
    attributes
}

/// A job's priority as JSON, with every input, factor, weight and product (F18).
fn data(turn: &QueueTurn) -> Value {
    let priority = &turn.priority;
    let parts = priority.parts.iter().map(|part| {
        json!({
            "name": part.name,
            "input": part.input,
            "factor": part.factor,
            "weight": part.weight,
            "product": part.product(),
        })
    });
    json!({
        "rank": turn.rank,
        "reserved": turn.is_reserved,
        "cluster": turn.cluster,
        "tier": priority.tier,
        "precedence": turn.precedence,
        "score": priority.score,
        "parts": parts.collect::<Vec<_>>(),
    })
}

fn difference(difference: &OrderDifference) -> Value {
    match difference {
        OrderDifference::Reserved => json!({ "name": "reserved" }),
        OrderDifference::Cluster(own, other) => {
            json!({ "name": "cluster", "own": own, "other": other })
        }
        OrderDifference::Tier(own, other) => json!({ "name": "tier", "own": own, "other": other }),
        OrderDifference::SystemPriority(own, other) => {
            json!({ "name": PriorityScore::SYSTEM_PRIORITY, "own": own, "other": other })
        }
        OrderDifference::Part(own, other) => {
            json!({ "name": own.name, "own": own.counts(), "other": other.counts() })
        }
        OrderDifference::Score(own, other) => {
            json!({ "name": "score", "own": own, "other": other })
        }
        OrderDifference::Place => json!({ "name": "place" }),
    }
}

/// The difference between a job and its neighbor: the value of the neighbor, then the value of this
/// job. `precedes` is true for the neighbor ahead of the job.
fn sentence(difference: &OrderDifference, precedes: bool) -> String {
    match difference {
        OrderDifference::Reserved if precedes => "only that job requests a reservation".to_string(),
        OrderDifference::Reserved => "only this job requests a reservation".to_string(),
        OrderDifference::Cluster(own, other) => {
            format!(
                "cluster {other}, this job {own}: each job comes first on the nodes of its cluster"
            )
        }
        OrderDifference::Tier(own, other) => {
            let [own, other] = [own, other].map(|precedence| precedence_text(precedence));
            format!("tier: {other}; this job: {own}")
        }
        OrderDifference::SystemPriority(own, other) => {
            let [own, other] = [own, other].map(|number| number.map_or("none".to_string(), short));
            format!("{} {other}, this job {own}", PriorityScore::SYSTEM_PRIORITY)
        }
        OrderDifference::Part(own, other) => {
            format!(
                "{} {}, this job {}",
                own.name,
                short(other.counts()),
                short(own.counts())
            )
        }
        OrderDifference::Score(own, other) => {
            format!("score {}, this job {}", short(*other), short(*own))
        }
        OrderDifference::Place if precedes => {
            "equal priority, earlier place in the queue".to_string()
        }
        OrderDifference::Place => "equal priority, later place in the queue".to_string(),
    }
}

/// The precedence that is compared before the score, or `none` if it is empty.
fn precedence_text(precedence: &str) -> &str {
    if precedence.is_empty() {
        "none"
    } else {
        precedence
    }
}

/// A number with up to four decimals; in scientific notation if its absolute value is at least
/// 1e15, or below 0.001 but not 0.
fn short(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(0.001..1e15).contains(&size) {
        return if size.is_finite() {
            format!("{number:.2e}")
        } else {
            format!("{number}")
        };
    }
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The line with the formula of the queue order; empty without a formula.
fn formula_line(indent: &str, formula: Option<&str>) -> String {
    formula.map_or(String::new(), |formula| {
        format!("{indent}Formula: {formula}\n")
    })
}

/// The table of the parts of a score. The terms of a formula have no weights and products; their
/// table omits these columns.
fn parts(parts: &[ScorePart]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        ["    Part", "Input", "Factor", "Weight", "Product"]
            .map(String::from)
            .to_vec(),
    ];
    rows.extend(parts.iter().map(|part| {
        let [weight, product] =
            [part.weight, part.product()].map(|number| number.map_or("--".to_string(), short));
        let name = format!("    {}", part.name);
        vec![
            name,
            part.input.clone(),
            short(part.factor),
            weight,
            product,
        ]
    }));
    if parts.iter().all(|part| part.weight.is_none()) {
        for row in &mut rows {
            row.truncate(3);
        }
    }
    let mut out = Vec::new();
    let _ = table::write(|| rows.iter().cloned(), 2, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The first jobs of the queue as a table, and the number of further jobs.
fn table(turns: &[QueueTurn], all: u64, server: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for part in turns.iter().flat_map(|turn| &turn.priority.parts) {
        if !names.contains(&&*part.name) {
            names.push(&part.name);
        }
    }
    let mut heads = HEADS.to_vec();
    heads.extend(names.iter().map(|name| (*name, true)));
    if turns.iter().any(|turn| turn.cluster.is_some()) {
        heads.push(("Cluster", true));
    }
    let rows: Vec<Vec<String>> = turns.iter().map(|turn| row(turn, &names, server)).collect();
    let mut out = String::new();
    if !turns.is_empty() {
        out = table::with_heads(&heads, &rows);
    }
    if all > turns.len() as u64 {
        let _ = writeln!(
            out,
            "and {} more; -F json lists all jobs",
            all - turns.len() as u64
        );
    }
    out
}

/// The first columns. Columns for the parts of the score and for the cluster follow.
const HEADS: [table::ColumnHead; 6] = [
    ("Rank", true),
    ("Job ID", false),
    ("Username", false),
    ("Account", false),
    ("Queue", false),
    ("Score", true),
];

/// The cells of one job in the queue; `names` are the parts of the score.
fn row(turn: &QueueTurn, names: &[&str], server: &str) -> Vec<String> {
    let mut cells = vec![
        turn.rank.to_string(),
        turn.priority.job.full(server),
        turn.user.clone(),
        turn.account.clone().unwrap_or_else(|| "--".to_string()),
        turn.queue.clone(),
        short(turn.priority.score),
    ];
    for name in names {
        let part = turn.priority.parts.iter().find(|part| part.name == *name);
        cells.push(part.map_or("--".to_string(), |part| short(part.counts())));
    }
    cells.extend(turn.cluster.clone());
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(rank: u64, user: &str, parts: Vec<ScorePart>) -> QueueTurn {
        let score = parts.iter().map(ScorePart::counts).sum();
        QueueTurn {
            rank,
            user: user.to_string(),
            account: (rank == 1).then(|| "wave".to_string()),
            queue: "workq".to_string(),
            is_reserved: false,
            cluster: None,
            precedence: String::new(),
            priority: PriorityScore {
                job: JobId::job(10 + rank),
                tier: 0,
                score,
                parts,
            },
        }
    }

    fn two() -> [QueueTurn; 2] {
        let parts = |factor: f64| {
            let wait = ScorePart::weighed("wait_time", "43200 s".into(), 0.0714, 1000.0);
            vec![
                wait,
                ScorePart::weighed("fair_share", "ann".into(), factor, 10000.0),
            ]
        };
        [turn(1, "ann", parts(0.5)), turn(2, "bob", parts(0.25))]
    }

    #[test]
    fn the_table_lists_jobs_in_order_and_counts_further_jobs() {
        let expected = "\
Rank Job ID  Username Account Queue  Score wait_time fair_share
---- ------- -------- ------- ----- ------ --------- ----------
   1 11.head ann      wave    workq 5071.4      71.4       5000
   2 12.head bob      --      workq 2571.4      71.4       2500
and 7 more; -F json lists all jobs
";
        assert_eq!(table(&two(), 9, "head"), expected);
        assert_eq!(table(&[], 0, "head"), "");
    }

    #[test]
    fn only_the_system_priority_is_shown_if_it_differs() {
        let [first, mut second] = two();
        second.priority.parts = vec![ScorePart::named(PriorityScore::SYSTEM_PRIORITY, 5.0)];
        let [only] = &first.differences(&second)[..] else {
            panic!("one difference")
        };
        assert_eq!(sentence(only, true), "system_priority 5, this job none");
        assert_eq!(
            difference(only),
            json!({ "name": "system_priority", "own": null, "other": 5.0 })
        );
    }

    /// Rule F18.
    #[test]
    fn parts_show_input_factor_weight_and_product() {
        let [first, second] = two();
        let expected = "    Part        Input    Factor  Weight  Product
    wait_time   43200 s  0.0714    1000     71.4
    fair_share  ann         0.5   10000     5000
";
        assert_eq!(parts(&first.priority.parts), expected);
        let sentences: Vec<String> = second
            .differences(&first)
            .iter()
            .map(|difference| sentence(difference, true))
            .collect();
        assert_eq!(sentences, ["fair_share 5000, this job 2500"]);
        let data = data(&first);
        assert_eq!(
            (&data["rank"], &data["parts"][1]["product"]),
            (&json!(1), &json!(5000.0))
        );
        assert_eq!(
            parts(&[ScorePart::named("walltime", 60.0)]).lines().nth(1),
            Some("    walltime  60         60")
        );
        assert_eq!(
            [short(0.0), short(1e-9), short(-2.5), short(1e6)],
            ["0", "1.00e-9", "-2.5", "1000000"]
        );
        assert_eq!(
            [-4.5e307, f64::NEG_INFINITY, 1_000_000_005.0].map(short),
            ["-4.50e307", "-inf", "1000000005"]
        );
    }
}
