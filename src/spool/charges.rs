//! The table of charges: the resources that each attempt (start of a job) had, without weights and
//! decay. Charges are kept longer than the job, because all values of usage are computed from them.

use super::{Spool, SpoolError, load};
use crate::model::account::charge::Charge;
use crate::model::account::member::Member;
use crate::model::job::held::Held;
use crate::model::time::Time;
use crate::update::ChargePart;
use rusqlite::{Row, Transaction, params};

/// The table. `idx` is -1 for jobs that are not subjobs.
pub(super) const SCHEMA: &str = "CREATE TABLE charge (
         job INTEGER NOT NULL, idx INTEGER NOT NULL, attempt INTEGER NOT NULL,
         account TEXT NOT NULL, user TEXT NOT NULL,
         began INTEGER NOT NULL, ended INTEGER NOT NULL,
         nodes INTEGER NOT NULL, cores INTEGER NOT NULL, gpus INTEGER NOT NULL, mem_kb INTEGER NOT NULL,
         PRIMARY KEY (job, idx, attempt)) WITHOUT ROWID;
     CREATE INDEX charge_ended ON charge (ended);";

/// Migration that adds `factor`, by which the usage is multiplied.
pub(super) const FACTORS: &str = "ALTER TABLE charge ADD COLUMN factor REAL NOT NULL DEFAULT 1;";

/// Migration that adds parts. Part 0 is the row for the end of an attempt. Each early release of
/// nodes and each suspension has a row of its own.
pub(super) const PARTS: &str = "CREATE TABLE charged (
         job INTEGER NOT NULL, idx INTEGER NOT NULL, attempt INTEGER NOT NULL, part INTEGER NOT NULL,
         account TEXT NOT NULL, user TEXT NOT NULL,
         began INTEGER NOT NULL, ended INTEGER NOT NULL,
         nodes INTEGER NOT NULL, cores INTEGER NOT NULL, gpus INTEGER NOT NULL, mem_kb INTEGER NOT NULL,
         factor REAL NOT NULL DEFAULT 1,
         PRIMARY KEY (job, idx, attempt, part)) WITHOUT ROWID;
     INSERT INTO charged SELECT job, idx, attempt, 0, account, user, began, ended, nodes, cores, gpus, mem_kb, factor
         FROM charge;
     DROP TABLE charge;
     ALTER TABLE charged RENAME TO charge;
     CREATE INDEX charge_ended ON charge (ended);";

/// Migration that adds the amounts of other consumables, as a JSON object.
pub(super) const AMOUNTS: &str =
    "ALTER TABLE charge ADD COLUMN amounts TEXT NOT NULL DEFAULT '{}';";

const COLUMNS: &str = "account, user, began, ended, nodes, cores, gpus, mem_kb, factor, amounts";

impl Spool {
    /// Passes all charges to `each`, in the order of their ends.
    pub fn charges(&self, each: impl FnMut(Charge)) -> Result<(), SpoolError> {
        self.charges_before(Time::NEVER, each)
    }

    /// Passes the charges that ended before a time to `each`, in the order of their ends.
    pub fn charges_before(
        &self,
        before: Time,
        mut each: impl FnMut(Charge),
    ) -> Result<(), SpoolError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM charge WHERE ended < ?1 ORDER BY ended, job, idx, attempt, part"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query([before.0])?;
        while let Some(row) = rows.next()? {
            each(charge(row)?);
        }
        Ok(())
    }
}

fn charge(row: &Row) -> Result<Charge, SpoolError> {
    let held = Held {
        nodes: row.get(4)?,
        cores: row.get(5)?,
        gpus: row.get(6)?,
        mem_kb: row.get(7)?,
    };
    let member = Member {
        account: row.get(0)?,
        user: row.get(1)?,
    };
    let (from, to) = (Time(row.get(2)?), Some(Time(row.get(3)?)));
    let amounts = serde_json::from_str(row.get_ref(9)?.as_str().map_err(rusqlite::Error::from)?)?;
    Ok(Charge {
        member,
        from,
        to,
        held,
        amounts,
        factor: row.get(8)?,
    })
}

/// Writes a completed charge. If the table already has a charge with this key, does nothing.
pub(super) fn write(
    transaction: &Transaction,
    (job, attempt, part): ChargePart,
    charge: &Charge,
) -> Result<(), SpoolError> {
    let sql = format!(
        "INSERT OR IGNORE INTO charge (job, idx, attempt, part, {COLUMNS}) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
    );
    let (
        Charge {
            member,
            from,
            to,
            held,
            amounts,
            factor,
        },
        index,
    ) = (charge, load::index(job));
    let to = to.unwrap_or(*from);
    transaction.prepare_cached(&sql)?.execute(params![
        job.number,
        index,
        attempt,
        part,
        member.account,
        member.user,
        from.0,
        to.0,
        held.nodes,
        held.cores,
        held.gpus,
        held.mem_kb,
        factor,
        serde_json::to_string(amounts)?
    ])?;
    Ok(())
}

/// Deletes the charges that ended before a time.
pub(super) fn forget(transaction: &Transaction, before: Time) -> Result<(), SpoolError> {
    transaction
        .prepare_cached("DELETE FROM charge WHERE ended < ?1")?
        .execute([before.0])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job_id::JobId;
    use crate::update::Update;
    use std::collections::BTreeMap;

    #[test]
    fn a_charge_is_written_once_and_expires() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(&folder.path().join("spool.db")).unwrap();
        let amounts = BTreeMap::from([("power".to_string(), 250.0)]);
        let of = |user: &str, to: i64| {
            let member = Member {
                account: "wave".into(),
                user: user.into(),
            };
            let held = Held {
                nodes: 1,
                cores: 2,
                gpus: 3,
                mem_kb: 4,
            };
            Box::new(Charge {
                member,
                from: Time(1),
                to: Some(Time(to)),
                held,
                amounts: amounts.clone(),
                factor: 0.25,
            })
        };
        let (job, element) = (JobId::job(7), JobId::element(7, 1));
        let rows = [
            (job, 1, of("ann", 9)),
            (job, 1, of("ann", 99)),
            (job, 2, of("bob", 5)),
            (element, 1, of("eve", 6)),
        ];
        let changes = rows.map(|(job, attempt, charge)| Update::Charge((job, attempt, 0), charge));
        spool.commit(&changes).unwrap();
        spool.commit(&changes).unwrap();
        let kept = |spool: &Spool| {
            let mut kept = Vec::new();
            spool.charges(|charge| kept.push(charge)).unwrap();
            kept
        };
        assert_eq!(kept(&spool), [*of("bob", 5), *of("eve", 6), *of("ann", 9)]);
        let mut old = Vec::new();
        spool
            .charges_before(Time(6), |charge| old.push(charge))
            .unwrap();
        assert_eq!(old, [*of("bob", 5)]);
        spool
            .commit(&[Update::Charge((job, 1, 1), of("ann", 7))])
            .unwrap();
        assert_eq!(
            kept(&spool),
            [*of("bob", 5), *of("eve", 6), *of("ann", 7), *of("ann", 9)],
            "released nodes have a charge of their own"
        );
        spool
            .commit(&[Update::Charge((job, 1, 1), of("ann", 8))])
            .unwrap();
        assert_eq!(kept(&spool).len(), 4);
        spool
            .commit(&[
                Update::ForgetCharges(Time(8)),
                Update::Charge((element, 1, 0), of("eve", 6)),
            ])
            .unwrap();
        spool
            .commit(&[Update::ForgetCharges(Time(6)), Update::Forget(job)])
            .unwrap();
        assert_eq!(
            kept(&spool),
            [*of("eve", 6), *of("ann", 9)],
            "a charge stays when the job is purged"
        );
    }
}
