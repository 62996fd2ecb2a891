//! The reason why a job waits, as JSON.

use crate::model::reason::Reason;
use crate::model::time::Time;
use crate::wire::message::ServerFacts;

/// The code, stage and fields of a reason. Times are in seconds since 1970, null for never; jobs
/// are full ids.
pub fn numbers_of(reason: &Reason, server: &ServerFacts) -> serde_json::Value {
    let mut object = serde_json::Map::new();
    object.insert("code".into(), reason.code().into());
    object.insert(
        "stage".into(),
        serde_json::to_value(reason.stage()).unwrap_or_default(),
    );
    if let Ok(serde_json::Value::Object(variant)) = serde_json::to_value(reason) {
        let numbers = variant
            .into_iter()
            .filter_map(|(_, fields)| fields.as_object().cloned());
        object.extend(numbers.flatten());
    }
    for key in ["at", "from", "until"] {
        if let Some(moment) = object.get_mut(key) {
            let at = moment.as_i64().map(Time).filter(|at| *at != Time::NEVER);
            *moment = at.map(|at| server.clock.wall(at).0).into();
        }
    }
    if let Reason::ArrayLimit {
        expand: Some(u32::MAX),
        ..
    } = reason
    {
        object.insert("expand".into(), "unlimited".into());
    }
    if let Reason::WouldDelayBooking { holder, .. } = reason {
        object.insert("holder".into(), holder.full(&server.name).into());
    }
    if let Reason::Limited(excess) = reason {
        let by = excess
            .by
            .iter()
            .map(|job| job.full(&server.name).into())
            .collect::<Vec<serde_json::Value>>();
        object.insert("by".into(), by.into());
        let subject = excess
            .names()
            .into_iter()
            .map(|(kind, name)| (kind.to_string(), name.into()));
        object.insert("whom".into(), serde_json::Value::Object(subject.collect()));
        object.remove("scope");
        object.insert("counts".into(), excess.stage.name().into());
    }
    serde_json::Value::Object(object)
}
