//! Pure decisions: state, policy and a moment go in, a plan comes out.
//!
//! No clock, no files, no randomness, no order that depends on hashing: the same state gives the
//! same plan in schedd, in the simulator and in every test. Read in this order:

// What the cycle may see: the cluster, the queue, what runs.
pub mod snapshot;

// What changes of it.
pub mod change;

mod amounts;

mod shape;

mod alike;

mod tenant;

mod room;

mod cluster;

mod filing;

mod order;

mod class;

mod wait;

mod outside;

pub mod pools;
pub mod siblings;

// What has been used, and by whom?
pub mod usage;

mod charging;

pub mod tenure;

// What runs, and by whom?
pub mod holdings;

mod counting;

mod limits;

pub mod in_force;

// The sentence.
pub mod cycle;

mod ledger;

// What the last one found out that still holds.
pub mod memory;

// Could it ever run?
mod feasibility;

// Who goes first?
mod priority;

mod merit;

mod ranks;

pub mod yardstick;

mod tiers;

mod turns;

mod own_order;

mod pool_turns;

mod nearness;

mod formula;

mod factors;

pub mod components;

mod equivalents;

mod fair_shares;

pub mod queue_order;

mod stakes;

pub mod shares;

// Is it worth enough?
mod threshold;

// May it run yet?
mod throttling;

// Is it to be considered at all?
pub mod eligible;

// Who is over a soft limit?
mod softly;

// Whose array takes what nobody else wants?
mod expansion;

// Where would it fit, and if nowhere, for want of what?
mod columns;

mod preferred;

mod bucket;

mod space;

mod availability;

mod resolution;

mod viewpoint;

mod screen;

mod preference;

mod choice;

mod dealing;

mod candidates;

mod trial;

mod matching;

mod node_count;

mod sets;

mod neighbourhood;

mod search;

mod shortage;

// Take it, spread the chunks over it, write down what the nodes are to be told.
mod allocation;

mod distribution;

mod launch;

// Promise the first blocked jobs their earliest starts, and let others pass only beside these.
mod backfill;

mod filling;

mod gaps;

mod greedy;

mod fillers;

mod calendar;

mod measure;

mod tally;

mod pins;

mod timeline;

mod standing;

mod limited;

// What stands still, and goes on in its turn.
mod suspended;

mod resuming;
// Who has less than its fair share for too long?
pub mod starvation;

// Who may use what reservations set aside?
mod admission;

// Where a reservation could lie.
pub mod window;

// Who makes way for whom?
mod preemption;

// An operator's order to start one job now.
pub mod forced;

pub mod nearest;

// The same cycle run forward: what becomes of the queue?
pub mod forecast;
mod standstill;

// What is free, and for how long?
pub mod holes;

// Why does this job wait?
pub mod why;

// Who is owed what, has what, and starves?
pub mod owed;

mod objections;

mod survey;

// What comes out.
pub mod plan;

// Clusters and jobs in a few words, for tests and benchmarks.
pub mod fixture;
