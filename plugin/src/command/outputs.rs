//! Checks where the reports of an audit go.

use crate::cli::AuditOutput;
use crate::exit::UsageError;

pub(super) fn check_outputs(outputs: &[AuditOutput]) -> Result<(), UsageError> {
    for (i, output) in outputs.iter().enumerate() {
        let mut earlier = outputs.iter().take(i);
        if !earlier.any(|other| other.file == output.file) {
            continue;
        }
        return Err(UsageError(match &output.file {
            Some(file) => format!(
                "two reports for {}: give each -o its own file",
                file.display()
            ),
            None => "two reports for stdout: give all but one of the -o a file, as in -o \
                     sarif=FILE"
                .to_owned(),
        }));
    }
    Ok(())
}
