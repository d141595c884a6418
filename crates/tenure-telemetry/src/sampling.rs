//! Which new traces are recorded, as OTEL_TRACES_SAMPLER says. A trace that came from a submitter is recorded where its flag
//! says so, unless the sampler named here decides by itself. Neighbours: `spans` asks, `telemetry` reads.

use opentelemetry_sdk::trace::Sampler;

const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";

/// A sampler that is not known.
#[derive(Debug, thiserror::Error)]
#[error("{variable} asks for {given:?}, which is no {kind}")]
pub struct UnknownSampler {
    variable: &'static str,
    given: String,
    kind: &'static str,
}

/// The sampler that these variables name; everything is recorded where they name none.
pub(crate) fn read_sampler(variable: impl Fn(&str) -> Option<String>) -> Result<Sampler, UnknownSampler> {
    let given = variable(SAMPLER).filter(|given| !given.is_empty());
    let ratio = || read_ratio(variable(ARGUMENT));
    let parent_based = |root: Sampler| Sampler::ParentBased(Box::new(root));
    Ok(match given.as_deref() {
        None | Some("parentbased_always_on") => parent_based(Sampler::AlwaysOn),
        Some("parentbased_always_off") => parent_based(Sampler::AlwaysOff),
        Some("parentbased_traceidratio") => parent_based(Sampler::TraceIdRatioBased(ratio()?)),
        Some("always_on") => Sampler::AlwaysOn,
        Some("always_off") => Sampler::AlwaysOff,
        Some("traceidratio") => Sampler::TraceIdRatioBased(ratio()?),
        Some(other) => {
            let kind = "sampler that is known";
            return Err(UnknownSampler { variable: SAMPLER, given: other.to_owned(), kind });
        }
    })
}

fn read_ratio(given: Option<String>) -> Result<f64, UnknownSampler> {
    let Some(given) = given.filter(|given| !given.is_empty()) else { return Ok(1.0) };
    match given.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        Ok(_) | Err(_) => Err(UnknownSampler { variable: ARGUMENT, given, kind: "share from 0 to 1" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sampler: Option<&str>, argument: Option<&str>) -> Result<String, String> {
        let read = read_sampler(|name| {
            let given = if name == SAMPLER { sampler } else { argument };
            given.map(str::to_owned)
        });
        read.map(|sampler| format!("{sampler:?}")).map_err(|error| error.to_string())
    }

    #[test]
    fn samplers_are_read_by_their_standard_names() {
        assert_eq!(read(None, None).unwrap(), "ParentBased(AlwaysOn)");
        assert_eq!(read(Some("always_off"), None).unwrap(), "AlwaysOff");
        assert_eq!(
            read(Some("parentbased_traceidratio"), Some("0.25")).unwrap(),
            "ParentBased(TraceIdRatioBased(0.25))"
        );
        assert_eq!(read(Some("traceidratio"), None).unwrap(), "TraceIdRatioBased(1.0)");
    }

    #[test]
    fn what_is_not_known_is_named() {
        assert_eq!(
            read(Some("sometimes"), None).unwrap_err(),
            "OTEL_TRACES_SAMPLER asks for \"sometimes\", which is no sampler that is known"
        );
        assert_eq!(
            read(Some("traceidratio"), Some("2")).unwrap_err(),
            "OTEL_TRACES_SAMPLER_ARG asks for \"2\", which is no share from 0 to 1"
        );
    }
}
