//! Finds the service in the service files, which `onetrip_postgres` reads, and fills its settings
//! in.

use std::fs;

use onetrip_postgres::client::connect::service::{says, settings};

use super::Config;
use super::environment::Surroundings;
use super::error::{ConfigError, ConfigErrorKind as Kind, Place};
use super::keyword::bit;
use super::text;

impl Config {
    /// The configuration with the settings of its service, where nothing but the environment has
    /// set them; `None` if no service is named.
    pub(super) fn with_service(
        &self,
        surroundings: &Surroundings<'_>,
    ) -> Result<Option<Config>, ConfigError> {
        let Some(service) = &self.service else { return Ok(None) };
        let named = self.servicefile.as_deref();
        let paths = surroundings.service_files(named);
        for path in &paths {
            let file = match fs::read(path) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(_) if named == Some(path) => {
                    let what = format!("{}{}", says::NO_FILE, path.display());
                    return Err(ConfigError::new(Kind::Service, Place::Config, what));
                }
                Err(_) => continue,
            };
            let found = settings(&file, service).map_err(|wrong| {
                let error = ConfigError::new(Kind::Service, Place::Config, wrong.what);
                error.in_service_file(path, wrong.line)
            })?;
            let Some(lines) = found else { continue };
            let mut config = self.clone();
            let mut given = self.given & !self.from_environment;
            for (line, name, value) in lines {
                let in_file = |error: ConfigError| error.in_service_file(path, line);
                let keyword = text::keyword(name, Place::Config, true).map_err(in_file)?;
                // The first line of a keyword counts, as in libpq.
                if given & bit(keyword) == 0 {
                    given |= bit(keyword);
                    config.set(keyword, value, Place::Config).map_err(in_file)?;
                }
            }
            return Ok(Some(config));
        }
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let what = format!("{}{}", says::NOT_FOUND, paths.join(", "));
        Err(ConfigError::new(Kind::Service, Place::Config, what))
    }
}
