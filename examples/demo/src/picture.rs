//! A picture of the demo: one row for each job, one bar for each of its runs, from the first heartbeat of the run's child to
//! its last, and a line for each fault. It shows what the witnesses saw and leaves nothing out; it judges nothing.
//!
//! Neighbours: `evidence` has the runs, `faults` the faults.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::{evidence::Evidence, faults::Mark};

/// Sizes, in pixels of the picture.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 62.0;
const ROW: f64 = 15.0;
const BAR: f64 = 11.0;
/// One colour for each worker, told apart also by those who see few colours.
const COLOURS: [&str; 6] = ["#3b6fb6", "#d98324", "#4c9f70", "#8d5a97", "#b03a48", "#6b6b6b"];

/// From nanoseconds of the wall clock to pixels.
struct Scale {
    first_ns: u64,
    last_ns: u64,
}

impl Scale {
    /// Of everything that is to be seen.
    fn of(evidence: &Evidence, marks: &[Mark]) -> Self {
        let beats = || evidence.jobs.iter().flat_map(|job| &job.runs).filter_map(|run| run.beats);
        let first_ns = beats().map(|beats| beats.first_ns).min().unwrap_or(0);
        let last = beats().map(|beats| beats.last_ns).chain(marks.iter().map(|mark| mark.at_ns)).max();
        Self { first_ns, last_ns: last.unwrap_or(0).max(first_ns + 1) }
    }

    fn seconds(&self, at_ns: u64) -> f64 {
        at_ns.saturating_sub(self.first_ns) as f64 / 1e9
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + seconds / self.seconds(self.last_ns) * (WIDTH - LEFT - RIGHT)
    }
}

/// The whole picture, as SVG.
pub(crate) fn draw(evidence: &Evidence, marks: &[Mark]) -> String {
    let scale = Scale::of(evidence, marks);
    let bottom = TOP + evidence.jobs.len() as f64 * ROW;
    let height = bottom + 34.0 + marks.len() as f64 * 16.0 + 12.0;
    let mut picture = Picture(String::new());
    picture.add(format_args!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11" fill="#24292f">"##
    ));
    picture.add(format_args!(r##"<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>"##));
    draw_head(&mut picture, evidence);
    draw_axis(&mut picture, &scale, bottom);
    draw_runs(&mut picture, evidence, &scale);
    draw_marks(&mut picture, marks, &scale, bottom);
    picture.add(format_args!("</svg>"));
    picture.0
}

/// The text of the picture, a line for each element.
struct Picture(String);

impl Picture {
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{element}");
    }
}

fn list_workers(evidence: &Evidence) -> Vec<&str> {
    let runs = evidence.jobs.iter().flat_map(|job| &job.runs);
    runs.map(|run| run.worker.as_str()).collect::<BTreeSet<_>>().into_iter().collect()
}

fn colour_of(workers: &[&str], worker: &str) -> &'static str {
    let place = workers.iter().position(|known| *known == worker).unwrap_or(COLOURS.len() - 1);
    COLOURS[place % COLOURS.len()]
}

fn draw_head(picture: &mut Picture, evidence: &Evidence) {
    picture.add(format_args!(
        r#"<text x="14" y="22" font-size="13" font-weight="bold">{} jobs, {} handovers: announced {} times, {} twice, {} lost, {} late writes fenced</text>"#,
        evidence.jobs.len(),
        evidence.handovers(),
        evidence.ledger_entries,
        evidence.duplicated(),
        evidence.lost(),
        evidence.fenced_writes,
    ));
    let workers = list_workers(evidence);
    for (place, worker) in workers.iter().enumerate() {
        let x = 14.0 + place as f64 * 90.0;
        let colour = colour_of(&workers, worker);
        picture.add(format_args!(r#"<rect x="{x}" y="33" width="11" height="11" fill="{colour}"/>"#));
        picture.add(format_args!(r#"<text x="{}" y="42">{worker}</text>"#, x + 16.0));
    }
    picture.add(format_args!(
        r#"<text x="{}" y="42">a row is a job, a bar is a run of it, a colour is its worker</text>"#,
        14.0 + workers.len() as f64 * 90.0
    ));
}

fn draw_axis(picture: &mut Picture, scale: &Scale, bottom: f64) {
    let whole = scale.seconds(scale.last_ns);
    let step = if whole > 40.0 { 10.0 } else { 5.0 };
    let mut seconds = 0.0;
    while seconds <= whole {
        let x = scale.x(seconds);
        picture.add(format_args!(
            r##"<path d="M{x:.1} {TOP}V{:.1}" stroke="#d0d7de"/><text x="{x:.1}" y="{:.1}" text-anchor="middle">{seconds:.0} s</text>"##,
            bottom + 4.0,
            bottom + 17.0
        ));
        seconds += step;
    }
}

fn draw_runs(picture: &mut Picture, evidence: &Evidence, scale: &Scale) {
    let workers = list_workers(evidence);
    for (row, job) in evidence.jobs.iter().enumerate() {
        let y = TOP + row as f64 * ROW;
        let hex = job.id.as_simple().to_string();
        picture.add(format_args!(r#"<text x="14" y="{:.1}">…{}</text>"#, y + 10.0, &hex[hex.len() - 8..]));
        for (run, beats) in job.runs.iter().filter_map(|run| Some((run, run.beats?))) {
            let from = scale.x(scale.seconds(beats.first_ns));
            let width = (scale.x(scale.seconds(beats.last_ns)) - from).max(2.0);
            let colour = colour_of(&workers, &run.worker);
            picture.add(format_args!(
                r#"<rect x="{from:.1}" y="{:.1}" width="{width:.1}" height="{BAR}" rx="2" fill="{colour}"><title>run {} on {}</title></rect>"#,
                y + 1.0,
                run.run,
                run.worker
            ));
        }
    }
}

fn draw_marks(picture: &mut Picture, marks: &[Mark], scale: &Scale, bottom: f64) {
    for (place, mark) in marks.iter().enumerate() {
        let x = scale.x(scale.seconds(mark.at_ns));
        let (number, y) = (place + 1, bottom + 38.0 + place as f64 * 16.0);
        picture.add(format_args!(
            r##"<path d="M{x:.1} {:.1}V{bottom:.1}" stroke="#cf222e" stroke-dasharray="4 3"/><text x="{x:.1}" y="{:.1}" text-anchor="middle" fill="#cf222e" font-weight="bold">{number}</text>"##,
            TOP - 4.0,
            TOP - 7.0
        ));
        let seconds = scale.seconds(mark.at_ns);
        picture.add(format_args!(
            r##"<text x="14" y="{y:.1}"><tspan fill="#cf222e" font-weight="bold">{number}</tspan>  {seconds:4.1} s  {}</text>"##,
            escape(&mark.what)
        ));
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use tenure_testkit::{Beats, Recoveries, RunHistory};

    use super::*;
    use crate::evidence::JobEvidence;

    fn run(number: u32, worker: &str, first_s: u64, last_s: u64) -> RunHistory {
        let beats = Beats { first_ns: first_s * 1_000_000_000, last_ns: last_s * 1_000_000_000 };
        RunHistory {
            run: number,
            epoch: u64::from(number),
            worker: worker.to_owned(),
            proof: None,
            beats: Some(beats),
        }
    }

    #[test]
    fn every_run_has_its_bar_from_its_first_beat_to_its_last_and_every_fault_its_line() {
        let job = JobEvidence {
            id: uuid::Uuid::from_u128(1),
            commit: String::new(),
            state: "succeeded".to_owned(),
            branch: true,
            entries: 1,
            runs: vec![run(1, "w1", 10, 15), run(2, "w2", 20, 30)],
        };
        let evidence = Evidence {
            jobs: vec![job],
            ledger_entries: 1,
            pushed_branches: 1,
            fenced_writes: 0,
            recoveries: Recoveries::default(),
            findings: Vec::new(),
        };
        let marks = [Mark { at_ns: 15_000_000_000, what: "a & b".to_owned() }];
        let drawn = draw(&evidence, &marks);
        // 20 s are 844 pixels from the 92nd on.
        for expected in [
            r#"<rect x="92.0""#,
            r#"width="211.0""#,
            r#"<rect x="514.0""#,
            r#"width="422.0""#,
            "M303.0 ",
            "a &amp; b",
        ] {
            assert!(drawn.contains(expected), "{expected} is not in {drawn}");
        }
        assert!(drawn.contains("1 jobs, 1 handovers: announced 1 times, 0 twice, 0 lost"), "{drawn}");
    }
}
