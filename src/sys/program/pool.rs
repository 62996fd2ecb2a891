//! A limited number of programs at once, each for a task.

use super::ProgramResult;
use super::RunningProgram;
use crate::model::time::Span;
use std::os::fd::BorrowedFd;

/// Programs that run, each for a task of type `T`.
#[derive(Debug)]
pub struct ProgramPool<T> {
    at_once: usize,
    of_user: usize,
    running: Vec<PoolEntry<T>>,
    /// Killed programs that may still exist.
    killed: Vec<RunningProgram>,
}

#[derive(Debug)]
struct PoolEntry<T> {
    task: T,
    user: Option<u32>,
    program: RunningProgram,
}

impl<T> ProgramPool<T> {
    /// A pool for up to `at_once` programs.
    pub fn new(at_once: usize) -> ProgramPool<T> {
        ProgramPool::with_user_limit(at_once, at_once)
    }

    /// A pool for up to `at_once` programs, up to `of_user` of them for one user.
    pub fn with_user_limit(at_once: usize, of_user: usize) -> ProgramPool<T> {
        ProgramPool {
            at_once,
            of_user,
            running: Vec::new(),
            killed: Vec::new(),
        }
    }

    /// Whether one more program may run.
    pub fn has_room(&self) -> bool {
        self.running.len() < self.at_once
    }

    /// Whether one more program may run for a user.
    pub fn has_room_for(&self, user: Option<u32>) -> bool {
        let own = self.running.iter().filter(|entry| entry.user == user);
        self.has_room() && (user.is_none() || own.count() < self.of_user)
    }

    /// Adds a program that was started for a task, on behalf of this user.
    pub fn add(&mut self, task: T, user: Option<u32>, program: RunningProgram) {
        self.running.push(PoolEntry {
            task,
            user,
            program,
        });
    }

    /// The tasks of the running programs.
    pub fn tasks(&self) -> impl Iterator<Item = &T> {
        self.running.iter().map(|entry| &entry.task)
    }

    /// Whether no program runs, and no killed one still exists.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty() && self.killed.is_empty()
    }

    /// The descriptors that become readable when there are programs to [collect](Self::finished).
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let running = self.running.iter().map(|entry| &entry.program);
        running
            .chain(&self.killed)
            .flat_map(RunningProgram::watched)
    }

    /// When the first program exceeds its time limit.
    pub fn next(&self) -> Option<Span> {
        let programs = self.running.iter().map(|entry| &entry.program);
        programs.filter_map(RunningProgram::next).min()
    }

    /// Removes and returns the tasks of programs that have finished or exceeded a limit by `now`.
    pub fn finished(&mut self, now: Span) -> Vec<(T, ProgramResult)> {
        self.killed.retain_mut(|program| !program.is_gone());
        let mut finished = Vec::new();
        for mut entry in std::mem::take(&mut self.running) {
            match entry.program.poll(now) {
                Some(result) => {
                    finished.push((entry.task, result));
                    self.keep_until_gone(entry.program);
                }
                None => self.running.push(entry),
            }
        }
        finished
    }

    /// Kills the programs of the tasks that `is_unwanted` selects.
    pub fn stop(&mut self, is_unwanted: impl Fn(&T) -> bool) {
        for mut entry in std::mem::take(&mut self.running) {
            if is_unwanted(&entry.task) {
                entry.program.stop();
                self.keep_until_gone(entry.program);
            } else {
                self.running.push(entry);
            }
        }
    }

    fn keep_until_gone(&mut self, mut program: RunningProgram) {
        if !program.is_gone() {
            self.killed.push(program);
        }
    }
}
