//! Placeholders in paths of output files and staged files: `^array_index^` as in PBS, and
//! equivalents of Grid Engine's `$JOB_ID` and `$JOB_NAME`.

use crate::model::job_id::JobId;

/// Placeholder for the index of a subjob. In paths of other jobs, it is not replaced.
pub const INDEX: &str = "^array_index^";

/// Placeholder for the job number.
pub const NUMBER: &str = "^job_number^";

/// Placeholder for the job name.
pub const NAME: &str = "^job_name^";

/// Returns `path` with the values of all placeholders that have a value for this job.
pub fn filled(path: &[u8], id: JobId, name: &str) -> Vec<u8> {
    let index = id.index().map(|index| index.to_string());
    let known = [
        (INDEX, index),
        (NUMBER, Some(id.number.to_string())),
        (NAME, Some(name.to_string())),
    ];
    let (mut filled, mut rest) = (Vec::new(), path);
    'bytes: while let Some((&first, behind)) = rest.split_first() {
        for (mark, value) in &known {
            if let (Some(behind), Some(value)) = (rest.strip_prefix(mark.as_bytes()), value) {
                filled.extend_from_slice(value.as_bytes());
                rest = behind;
                continue 'bytes;
            }
        }
        filled.push(first);
        rest = behind;
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_placeholders_with_a_value_are_replaced() {
        let shown = |path: &str, id| {
            String::from_utf8(filled(path.as_bytes(), id, "j^job_number^")).unwrap()
        };
        let element = JobId::element(12, 7);
        assert_eq!(
            shown("/d/^array_index^/x.^array_index^", element),
            "/d/7/x.7"
        );
        assert_eq!(
            shown("^job_name^.o^job_number^.^array_index^", element),
            "j^job_number^.o12.7"
        );
        assert_eq!(shown("/d/^array_inde", element), "/d/^array_inde");
        assert_eq!(
            shown("/d/^array_index^.^job_number^", JobId::array(12)),
            "/d/^array_index^.12"
        );
    }
}
