//! The tables of reservations and of the events of reservations.

use super::{Spool, SpoolError, load};
use crate::model::reservation::{Happened, Reservation};
use crate::model::time::Time;
use rusqlite::{Connection, Transaction, params};

/// The tables.
pub(super) const SCHEMA: &str =
    "CREATE TABLE reservation (id TEXT PRIMARY KEY, reservation TEXT NOT NULL) WITHOUT ROWID;
     CREATE TABLE reservation_event (
         id TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, event TEXT NOT NULL,
         PRIMARY KEY (id, seq)) WITHOUT ROWID;";

impl Spool {
    /// All reservations.
    pub fn reservations(&self) -> Result<Vec<Reservation>, SpoolError> {
        all(&self.connection)
    }
}

pub(super) fn all(connection: &Connection) -> Result<Vec<Reservation>, SpoolError> {
    load::records(
        connection,
        "SELECT reservation FROM reservation ORDER BY id",
    )
}

pub(super) fn write(
    transaction: &Transaction,
    reservation: &Reservation,
) -> Result<(), SpoolError> {
    let sql = "INSERT OR REPLACE INTO reservation (id, reservation) VALUES (?1, ?2)";
    transaction
        .prepare_cached(sql)?
        .execute(params![reservation.id, serde_json::to_string(reservation)?])?;
    Ok(())
}

pub(super) fn remove(transaction: &Transaction, id: &str) -> Result<(), SpoolError> {
    transaction
        .prepare_cached("DELETE FROM reservation WHERE id = ?1")?
        .execute([id])?;
    Ok(())
}

pub(super) fn write_event(
    transaction: &Transaction,
    at: Time,
    id: &str,
    event: &Happened,
) -> Result<(), SpoolError> {
    let sql = "INSERT INTO reservation_event (id, seq, at, event) VALUES
        (?1, (SELECT coalesce(max(seq), 0) + 1 FROM reservation_event WHERE id = ?1), ?2, ?3)";
    transaction
        .prepare_cached(sql)?
        .execute(params![id, at.0, serde_json::to_string(event)?])?;
    Ok(())
}

/// Deletes the events before a time, except events of reservations that still exist.
pub(super) fn purge(transaction: &Transaction, before: Time) -> Result<(), SpoolError> {
    let sql =
        "DELETE FROM reservation_event WHERE at < ?1 AND id NOT IN (SELECT id FROM reservation)";
    transaction.execute(sql, [before.0])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::reservation::tests::reservation;
    use crate::update::Update;
    use std::sync::Arc;

    #[test]
    fn events_of_existing_reservations_are_not_purged() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(&folder.path().join("spool.db")).unwrap();
        let reservation = reservation(2);
        let happened = |at| Update::ReservationEvent(Time(at), "R12".into(), Happened::Began);
        spool
            .commit(&[
                Update::Reservation(Arc::new(reservation.clone())),
                happened(1),
                happened(2),
            ])
            .unwrap();
        assert_eq!(spool.reservations().unwrap(), [reservation]);
        let events = |spool: &Spool| -> usize {
            spool
                .connection
                .query_row("SELECT count(*) FROM reservation_event", [], |row| {
                    row.get(0)
                })
                .unwrap()
        };
        spool.commit(&[Update::Purge(Time(2))]).unwrap();
        assert_eq!(events(&spool), 2);
        spool
            .commit(&[
                Update::ReservationGone("R12".into()),
                Update::Purge(Time(2)),
            ])
            .unwrap();
        assert_eq!(
            (spool.reservations().unwrap().len(), events(&spool)),
            (0, 1)
        );
    }
}
