//! Whom to believe, of Sentinels that say different things.

use super::answer::Answer;
use crate::redirect::Address;

/// The master as Sentinels see it, with the epoch of that configuration if they tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) address: Address,
    pub(super) epoch: Option<u64>,
}

/// How many Sentinels there are: no fewer than any of these knows, and no fewer than they and those
/// that are silent. `silent`: how many of those were configured, and how many are known from others.
/// The two are not added up, since one may be configured by a name and known by an address.
pub(super) fn known(voices: &[&Answer], silent: (usize, usize)) -> usize {
    let told = voices.iter().map(|voice| voice.known).max().unwrap_or(0);
    told.max(voices.len() + silent.0.max(silent.1))
}

/// One answer of each Sentinel, the newest.
pub(super) fn distinct<'a>(answers: impl Iterator<Item = &'a Answer>) -> Vec<&'a Answer> {
    let mut voices: Vec<&Answer> = Vec::new();
    for answer in answers {
        match voices.iter_mut().find(|voice| answer.id.is_some() && voice.id == answer.id) {
            Some(voice) if voice.epoch < answer.epoch => *voice = answer,
            Some(_) => {}
            None => voices.push(answer),
        }
    }
    voices
}

/// The master of the newest epoch that any of these tells, or that was told before.
pub(super) fn newest(voices: &[&Answer], told: Option<&Seen>) -> Option<Seen> {
    let new = voices.iter().filter(|voice| voice.epoch.is_some()).max_by_key(|it| it.epoch);
    let new = new.map(|it| Seen { address: it.master.clone(), epoch: it.epoch });
    match (new, told) {
        (Some(new), Some(told)) if new.epoch <= told.epoch => Some(told.clone()),
        (Some(new), _) => Some(new),
        (None, told) => told.cloned(),
    }
}

/// The master that these Sentinels, of so many, show; `None` if that can't be told.
///
/// A majority must have answered: a Sentinel that is cut off from the others may know an old master
/// only. Of their answers the one with the newest epoch counts, even if it is a single one, since
/// after a failover the Sentinel that led it knows first. Where they name two masters in one epoch,
/// or tell no epoch, a majority must name the same. `remembered` is the newest that was ever told.
pub(super) fn believe(voices: &[&Answer], known: usize, remembered: Option<&Seen>) -> Option<Seen> {
    if !is_majority(voices.len(), known) {
        return None;
    }
    let epoch = voices.iter().filter_map(|voice| voice.epoch).max();
    let newest = voices.iter().filter(|voice| voice.epoch == epoch);
    let first = newest.clone().max_by_key(|voice| count(voices, epoch, &voice.master))?;
    let (agreeing, all) = (count(voices, epoch, &first.master), newest.count());
    let agreed = (agreeing == all && epoch.is_some()) || is_majority(agreeing, known);
    let seen = agreed.then(|| Seen { address: first.master.clone(), epoch })?;
    match remembered {
        // All of them may have lost their memory, or were set up anew.
        Some(old) if seen.epoch < old.epoch && agreeing < known => Some(old.clone()),
        // A server that is announced under another name, or an odd one out.
        Some(old) if seen.epoch == old.epoch && !is_majority(agreeing, known) => Some(old.clone()),
        _ => Some(seen),
    }
}

fn count(voices: &[&Answer], epoch: Option<u64>, master: &Address) -> usize {
    voices.iter().filter(|voice| voice.epoch == epoch && voice.master == *master).count()
}

pub(super) fn is_majority(of: usize, known: usize) -> bool {
    of > known / 2
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn address(host: &str) -> Address {
        Address::new(host, 1).unwrap()
    }

    fn says(id: &str, master: &str, epoch: impl Into<Option<u64>>) -> Answer {
        Answer {
            id: Some(id.to_owned()),
            master: address(master),
            epoch: epoch.into(),
            known: 3,
            sentinels: Vec::new(),
            replicas: Vec::new(),
        }
    }

    fn believed(answers: &[Answer], old: Option<(&str, u64)>) -> Option<String> {
        let voices = distinct(answers.iter());
        let old = old.map(|(host, epoch)| Seen { address: address(host), epoch: Some(epoch) });
        believe(&voices, 3, old.as_ref()).map(|seen| seen.address.host.into())
    }

    #[test]
    fn one_of_three_is_not_believed_and_neither_is_one_that_answers_twice() {
        assert_eq!(believed(&[says("1", "a", 7)], None), None);
        assert_eq!(believed(&[says("1", "a", 7), says("1", "a", 7)], None), None);
        assert_eq!(believed(&[says("1", "a", 7), says("2", "a", 7)], None).unwrap(), "a");
    }

    #[test]
    fn the_newest_epoch_wins_over_the_many() {
        let answers = [says("1", "a", 7), says("2", "a", 7), says("3", "b", 8)];
        assert_eq!(believed(&answers, None).unwrap(), "b");
    }

    #[test]
    fn what_was_learned_is_not_forgotten_when_only_old_ones_answer() {
        let answers = [says("1", "a", 7), says("2", "a", 7)];
        assert_eq!(believed(&answers, Some(("b", 8))).unwrap(), "b");
        // One alone does not rename it within its epoch.
        assert_eq!(believed(&[says("1", "a", 7), says("2", "c", 8)], Some(("b", 8))).unwrap(), "b");
        // All of them are older: they were set up anew.
        let answers = [says("1", "a", 7), says("2", "a", 7), says("3", "a", 7)];
        assert_eq!(believed(&answers, Some(("b", 8))).unwrap(), "a");
    }

    #[test]
    fn two_masters_in_one_epoch_need_a_majority() {
        let answers = [says("1", "a", 7), says("2", "b", 7)];
        assert_eq!(believed(&answers, None), None);
        let answers = [says("1", "a", 7), says("2", "b", 7), says("3", "b", 7)];
        assert_eq!(believed(&answers, None).unwrap(), "b");
    }

    #[test]
    fn without_epochs_a_majority_must_name_the_same() {
        assert_eq!(believed(&[says("1", "a", None), says("2", "b", None)], None), None);
        assert_eq!(believed(&[says("1", "a", None), says("2", "a", None)], None).unwrap(), "a");
    }

    #[test]
    fn a_sentinel_under_two_names_counts_once() {
        let (one, two) = (says("1", "a", 7), says("2", "a", 7));
        let alone = |answer: &Answer| Answer { known: 1, ..answer.clone() };
        let (one, two) = (alone(&one), alone(&two));
        assert_eq!(known(&distinct([&one, &one, &two].into_iter()), (0, 0)), 2);
        assert_eq!(known(&[&one], (2, 0)), 3);
    }

    #[test]
    fn a_silent_name_may_be_that_of_a_silent_address_but_never_of_one_that_answered() {
        let (one, two) = (says("1", "a", 7), says("2", "a", 7));
        assert_eq!(known(&[&one, &two], (1, 1)), 3);
        assert_eq!(known(&[&one, &two], (3, 0)), 5);
    }
}
