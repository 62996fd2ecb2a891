//! A limited number of programs that run at the same time. The caller attaches a value (the task)
//! to each program.

use super::ProgramResult;
use super::RunningProgram;
use crate::model::time::Span;
use std::os::fd::BorrowedFd;

/// Running programs, each with a task of type `T`.
#[derive(Debug)]
pub struct ProgramPool<T> {
    max_running: usize,
    max_of_user: usize,
    running: Vec<PoolEntry<T>>,
    /// Programs that were removed from `running` before they were reaped.
    killed: Vec<RunningProgram>,
}

#[derive(Debug)]
struct PoolEntry<T> {
    task: T,
    user: Option<u32>,
    program: RunningProgram,
}

impl<T> ProgramPool<T> {
    /// Creates a pool for up to `max_running` programs.
    pub fn new(max_running: usize) -> ProgramPool<T> {
        ProgramPool::with_user_limit(max_running, max_running)
    }

    /// Creates a pool for up to `max_running` programs, and up to `max_of_user` programs per user.
    pub fn with_user_limit(max_running: usize, max_of_user: usize) -> ProgramPool<T> {
        ProgramPool {
            max_running,
            max_of_user,
            running: Vec::new(),
            killed: Vec::new(),
        }
    }

    /// Whether the limit on all programs permits another program.
    pub fn has_room(&self) -> bool {
        self.running.len() < self.max_running
    }

    /// Whether the limits permit another program for `user`. None means a program without a user,
    /// for which only the limit on all programs counts.
    pub fn has_room_for(&self, user: Option<u32>) -> bool {
        let own = self.running.iter().filter(|entry| entry.user == user);
        self.has_room() && (user.is_none() || own.count() < self.max_of_user)
    }

    /// Adds a program that was started for `task`, on behalf of `user`.
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

    /// Whether no program runs, and no killed program still exists.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty() && self.killed.is_empty()
    }

    /// The descriptors that become readable when [`finished`](Self::finished) has work to do.
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let running = self.running.iter().map(|entry| &entry.program);
        running
            .chain(&self.killed)
            .flat_map(RunningProgram::watched)
    }

    /// The earliest time at which a program exceeds its time limit; None if no program runs.
    pub fn next(&self) -> Option<Span> {
        let programs = self.running.iter().map(|entry| &entry.program);
        programs.filter_map(RunningProgram::next).min()
    }

    /// Removes the programs that have finished, or have exceeded their time limit at `now`. Returns
    /// their tasks and results.
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

    /// Kills the program of each task that `is_unwanted` selects, and drops the task.
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
