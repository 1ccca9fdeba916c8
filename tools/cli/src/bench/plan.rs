//! Makes the plan of a run from the options.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use onetrip_measure::concurrency;
use onetrip_measure::fortunes::Mode;
use onetrip_measure::load::{Load, Until};
use onetrip_measure::redis;
use onetrip_measure::results::{Isolation, Key, Preset, Unit};
use onetrip_measure::run::{Plan, Planned, Work};
use onetrip_measure::script::{self, Mix, Script};
use onetrip_measure::trips::{self, Way};

use super::args::{PresetArg, ProtocolArg, RunArgs};
use super::choose::chosen;
use crate::command_line::command_line;
use crate::output::tell;

impl RunArgs {
    /// The plan that these options ask for.
    ///
    /// # Errors
    /// A workload that isn't known, or options that don't go together.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        self.check_options()?;
        let workloads = chosen("workload", &self.workload, &self.known())?;
        let mut cells = Vec::new();
        let rtts = if self.rtt.is_empty() { vec![0.0] } else { self.rtt.clone() };
        for form in self.scripts()? {
            rtts.iter().for_each(|rtt| self.add_script(&form, *rtt, &mut cells));
        }
        for rtt in self.rtts(PresetArg::Concurrency) {
            self.add_concurrency(&workloads, rtt, &mut cells);
        }
        for rtt in self.rtts(PresetArg::Trips) {
            self.add_trips(&workloads, rtt, &mut cells);
        }
        for rtt in self.rtts(PresetArg::Fortunes) {
            self.add_fortunes(&workloads, rtt, &mut cells);
        }
        for rtt in self.rtts(PresetArg::Redis) {
            self.add_redis(&workloads, rtt, &mut cells);
        }
        if cells.is_empty() {
            return Err(ONLY_PINGS.to_owned());
        }
        Ok(Plan {
            cells,
            repetitions: self.repetitions,
            seed: self.seed,
            rows: self.rows.unwrap_or(ROWS),
            scale: self.scale_of_tables(),
            one_trip: self.one_trip,
            force: self.force,
            command: command_line(std::env::args_os()),
            threads: self.threads as usize,
        })
    }

    /// Whether Redis is measured, instead of PostgreSQL.
    pub(super) fn is_on_redis(&self) -> bool {
        self.has(PresetArg::Redis)
    }

    fn has(&self, preset: PresetArg) -> bool {
        self.preset.contains(&preset)
    }

    fn has_scripts(&self) -> bool {
        !self.script.is_empty() || !self.builtin.is_empty()
    }

    /// Refuses options that would have no effect.
    fn check_options(&self) -> Result<(), String> {
        let scripts = self.has_scripts();
        if self.preset.is_empty() && !scripts {
            return Err(NOTHING_TO_MEASURE.to_owned());
        }
        let redis = self.is_on_redis();
        if redis && (scripts || self.preset.iter().any(|it| *it != PresetArg::Redis)) {
            return Err(ALONE.to_owned());
        }
        let (concurrency, trips) = (self.has(PresetArg::Concurrency), self.has(PresetArg::Trips));
        let tasks = concurrency || self.has(PresetArg::Fortunes) || scripts;
        let levels = concurrency || scripts;
        let given: [(&str, bool, bool, &str); 13] = [
            ("--isolation", !self.isolation.is_empty(), levels, LEVEL_USERS),
            ("--tasks", !self.tasks.is_empty(), tasks, TASKS_USERS),
            ("--connections", self.connections.is_some(), tasks, TASKS_USERS),
            ("--rate", self.rate.is_some(), tasks, TASKS_USERS),
            ("--one-trip", self.one_trip, concurrency, "--preset concurrency"),
            ("--rows", self.rows.is_some(), concurrency, "--preset concurrency"),
            ("--depth", !self.depth.is_empty(), trips || redis, "--preset trips and redis"),
            ("--force", self.force, !redis, "what is measured on a PostgreSQL"),
            ("--scale", self.scale.is_some(), scripts, SCRIPT_USERS),
            ("--compare", self.compare, scripts, SCRIPT_USERS),
            ("--define", !self.define.is_empty(), scripts, SCRIPT_USERS),
            ("--protocol", self.protocol.is_some(), scripts, SCRIPT_USERS),
            ("--max-tries", self.max_tries.is_some(), scripts, SCRIPT_USERS),
        ];
        match given.iter().find(|(_, is_given, is_used, _)| *is_given && !is_used) {
            Some((option, _, _, users)) => Err(format!("{option} is for {users}")),
            None => Ok(()),
        }
    }

    /// The workloads of the presets.
    fn known(&self) -> Vec<&'static str> {
        let mut known = Vec::new();
        if self.has(PresetArg::Concurrency) {
            known.extend(concurrency::WORKLOADS.iter().map(|it| it.name));
        }
        if self.has(PresetArg::Trips) {
            known.extend(trips::WORKLOADS);
        }
        if self.has(PresetArg::Fortunes) {
            known.push(FORTUNES);
        }
        if self.has(PresetArg::Redis) {
            known.extend(redis::WORKLOADS);
        }
        known
    }

    /// The added round trips of a preset; none if the preset was not chosen.
    fn rtts(&self, preset: PresetArg) -> Vec<f64> {
        match (self.has(preset), preset) {
            (false, _) => Vec::new(),
            (true, _) if !self.rtt.is_empty() => self.rtt.clone(),
            (true, PresetArg::Trips | PresetArg::Redis) => RTTS.to_vec(),
            (true, _) => vec![0.0],
        }
    }

    fn load(&self, otherwise: Until) -> Load {
        let until = match (self.seconds, self.operations) {
            (Some(seconds), _) => Until::Elapsed(Duration::from_secs_f64(seconds)),
            (_, Some(operations)) => Until::Operations(operations),
            _ => otherwise,
        };
        Load { until, rate: self.rate, seed: self.seed }
    }

    fn add_concurrency(&self, workloads: &[&str], rtt_added_ms: f64, cells: &mut Vec<Planned>) {
        let levels: Vec<Isolation> = match self.isolation.is_empty() {
            true => Isolation::ALL.to_vec(),
            false => self.isolation.iter().map(|level| (*level).into()).collect(),
        };
        let tasks = if self.tasks.is_empty() { &TASKS[..] } else { &self.tasks };
        for workload in concurrency::WORKLOADS.iter().filter(|it| workloads.contains(&it.name)) {
            for (isolation, tasks) in
                levels.iter().flat_map(|level| tasks.iter().map(move |tasks| (level, tasks)))
            {
                let many = (*tasks, self.connections_of(*tasks, CONNECTIONS));
                let load = self.load(Until::Each(1));
                let mut cell =
                    Planned::concurrency(*workload, *isolation, many, rtt_added_ms, load);
                cell.key.mode = self.one_trip.then(|| "one trip".to_owned());
                cells.push(cell);
            }
        }
    }

    fn add_trips(&self, workloads: &[&str], rtt_added_ms: f64, cells: &mut Vec<Planned>) {
        let depths = if self.depth.is_empty() { &trips::DEPTHS[..] } else { &self.depth };
        for way in workloads.iter().flat_map(|workload| Way::of(workload, depths)) {
            let mut load = Load { rate: None, ..self.load(Until::Elapsed(TRIPS_TIME)) };
            if let Until::Operations(all) = &mut load.until {
                // The load counts calls.
                *all = all.div_ceil(way.operations_per_call());
            }
            cells.push(Planned::trips(way, rtt_added_ms, load));
        }
    }

    fn add_redis(&self, workloads: &[&str], rtt_added_ms: f64, cells: &mut Vec<Planned>) {
        let depths = if self.depth.is_empty() { &redis::DEPTHS[..] } else { &self.depth };
        let ways = workloads.iter().flat_map(|workload| redis::Way::of(workload, depths));
        for way in ways.filter(|way| way.bears(rtt_added_ms)) {
            let load = self.load(Until::Elapsed(TRIPS_TIME));
            cells.push(Planned::redis(way, rtt_added_ms, load));
        }
    }

    fn add_fortunes(&self, workloads: &[&str], rtt_added_ms: f64, cells: &mut Vec<Planned>) {
        if !workloads.contains(&FORTUNES) {
            return;
        }
        let tasks = if self.tasks.is_empty() { &HTTP_CONNECTIONS[..] } else { &self.tasks };
        for (mode, tasks) in Mode::ALL.iter().flat_map(|it| tasks.iter().map(move |n| (*it, *n))) {
            let key = Key {
                preset: Preset::Fortunes,
                workload: FORTUNES.to_owned(),
                mode: Some(mode.name().to_owned()),
                isolation: None,
                tasks,
                connections: self.connections_of(tasks, CONNECTIONS),
                depth: None,
                rate: self.rate,
                rtt_added_ms,
            };
            let load = self.load(Until::Elapsed(SCRIPT_TIME));
            cells.push(Planned { key, unit: Unit::Request, work: Work::Fortunes(mode), load });
        }
    }

    /// The scripts in both forms, ready to run; none without --script and --builtin.
    fn scripts(&self) -> Result<Vec<Form>, String> {
        let mut scripts = Vec::new();
        for text in &self.script {
            let (path, weight) = script::parse_weighted(text).map_err(|it| it.to_string())?;
            let content = std::fs::read_to_string(path)
                .map_err(|error| format!("can't read the script {path} ({error})"))?;
            let parsed = Script::parse(path, &content).map_err(|it| it.to_string())?;
            scripts.push((parsed, weight));
        }
        for text in &self.builtin {
            let (name, weight) = script::parse_weighted(text).map_err(|it| it.to_string())?;
            scripts.push((script::builtin(name).map_err(|it| it.to_string())?, weight));
        }
        let mut forms = Vec::new();
        for (label, mix) in self.mixes(scripts)? {
            self.add_forms(&label, &mix, &mut forms)?;
        }
        Ok(forms)
    }

    /// The mixes to measure, each with its name: all scripts together, or each by itself.
    fn mixes(&self, scripts: Vec<(Script, u32)>) -> Result<Vec<(String, Mix)>, String> {
        let labels = script::labels(scripts.iter().map(|(script, _)| script));
        if self.compare {
            if scripts.iter().any(|(_, weight)| *weight != 1) {
                return Err(WEIGHTS.to_owned());
            }
            return Ok(labels.into_iter().zip(scripts.into_iter().map(|it| it.0.into())).collect());
        }
        let name = match (&labels[..], &scripts[..]) {
            ([], _) => return Ok(Vec::new()),
            ([only], _) => only.clone(),
            (labels, scripts) => {
                let weighted = labels.iter().zip(scripts);
                let weighted = weighted.map(|(label, (_, weight))| format!("{label}@{weight}"));
                weighted.collect::<Vec<_>>().join(" ")
            }
        };
        Ok(vec![(name, Mix::new(scripts).map_err(|it| it.to_string())?)])
    }

    /// Adds the mix as it is written, and pipelined if that is possible.
    fn add_forms(&self, label: &str, mix: &Mix, forms: &mut Vec<Form>) -> Result<(), String> {
        let protocol = self.protocol().into();
        let obstacle = mix.why_not_pipelined(protocol);
        if let Some(why) = obstacle {
            tell(&format!("{label} {why}: it is measured only as it is written"));
        }
        let kinds = [script::Form::AsWritten, script::Form::Pipelined];
        for form in kinds.into_iter().take(if obstacle.is_some() { 1 } else { 2 }) {
            let settings = script::Settings {
                form,
                protocol,
                scale: self.scale_of_tables().unwrap_or(1),
                defines: self.define.clone(),
                seed: self.seed,
                max_tries: self.max_tries.unwrap_or(0),
            };
            let name = if mix.has_pipelines() { "as written" } else { form.name() };
            let mode = match self.protocol() {
                ProtocolArg::Prepared => name.to_owned(),
                _ => format!("{}, {name}", self.protocol_name()),
            };
            let plan = script::Plan::new(mix, settings).map_err(|it| it.to_string())?;
            forms.push(Form { label: label.to_owned(), mode, plan });
        }
        Ok(())
    }

    fn scale_of_tables(&self) -> Option<u32> {
        let by_itself = !self.builtin.is_empty() || (self.has_scripts() && self.url.is_none());
        self.scale.or(by_itself.then_some(1))
    }

    fn add_script(&self, form: &Form, rtt: f64, cells: &mut Vec<Planned>) {
        let levels: Vec<Option<Isolation>> = match self.isolation.is_empty() {
            true => vec![None],
            false => self.isolation.iter().map(|level| Some((*level).into())).collect(),
        };
        let tasks = if self.tasks.is_empty() { &[1][..] } else { &self.tasks };
        for isolation in levels {
            for tasks in tasks.iter().copied() {
                let key = Key {
                    preset: Preset::Script,
                    workload: form.label.clone(),
                    mode: Some(form.mode.clone()),
                    isolation,
                    tasks,
                    connections: self.connections_of(tasks, tasks),
                    depth: None,
                    rate: self.rate,
                    rtt_added_ms: rtt,
                };
                let load = self.load(Until::Elapsed(SCRIPT_TIME));
                let work = Work::Script(form.plan.clone());
                cells.push(Planned { key, unit: Unit::Transaction, work, load });
            }
        }
    }

    /// The number of connections: at most one per task.
    fn connections_of(&self, tasks: u32, otherwise: u32) -> u32 {
        self.connections.unwrap_or(otherwise).min(tasks)
    }

    fn protocol(&self) -> ProtocolArg {
        self.protocol.unwrap_or(ProtocolArg::Prepared)
    }

    fn protocol_name(&self) -> String {
        let value = self.protocol().to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Scripts in one of their forms, ready to run.
struct Form {
    label: String,
    mode: String,
    plan: Arc<script::Plan>,
}

const WEIGHTS: &str = "--compare runs each script by itself: leave out the weights";
const ALONE: &str = "--preset redis measures another server than the others: let it run by itself";
const NOTHING_TO_MEASURE: &str =
    "say what to measure: --preset, --script or --builtin (see --help)";
const ONLY_PINGS: &str =
    "the workload pings is measured without an added round trip: add 0 to --rtt";

/// The numbers of tasks in the benchmark that the preset follows.
const TASKS: [u32; 5] = [100, 200, 400, 800, 1600];
const CONNECTIONS: u32 = 10;
const ROWS: u32 = 100;

const TASKS_USERS: &str = "--preset concurrency or fortunes and for scripts";
const LEVEL_USERS: &str = "--preset concurrency and for scripts";
const SCRIPT_USERS: &str = "--script and --builtin";

/// The only workload of its preset.
const FORTUNES: &str = "fortunes";
const HTTP_CONNECTIONS: [u32; 3] = [16, 64, 256];

/// The default duration of a repetition for scripts and for fortunes.
const SCRIPT_TIME: Duration = Duration::from_secs(5);

/// Round trips in ms, from the same machine to another continent.
const RTTS: [f64; 6] = [0.0, 0.2, 1.0, 5.0, 20.0, 50.0];

const TRIPS_TIME: Duration = Duration::from_millis(500);
