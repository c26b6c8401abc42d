// What the checker says about small histories of a work graph, written out: for each promise some that keep it, often
// just so, and some that break it.
import { describe } from "node:test";
import { broken, valid } from "./verify-graph-lines.js";

const taken = "0-5 a/ann claim n | claimed n 1";

describe("a node and its holder", () => {
  valid("the next has it after a release", [
    taken,
    "10-15 a/ann release n token=1 | done",
    "12-20 b/bob claim n | claimed n 2",
  ]);
  valid("the next has it after the lease has lapsed", [taken, "990-1001 b/bob next | claimed n 2"]);
  valid("the next has it after work that is done", [
    taken,
    "10-15 a/ann status n token=1 status=done | updated",
    "16-20 b/bob status n status=open | updated",
    "21-30 b/bob claim n | claimed n 2",
  ]);
  valid("a release without a reply may have been done", [
    taken,
    "10-? a/ann release n token=1 | unknown",
    "20-25 b/bob claim n | claimed n 2",
  ]);
  valid("a renewal without a reply may have been done", [
    taken,
    "900-? a/ann renew n token=1 | unknown",
    "1500-1505 b/bob claim n | taken 1 ann",
  ]);
  valid("a claim without a reply may have come before", [
    "0-? a/ann claim n request=r | unknown",
    "10-15 b/bob claim n | taken 1 ann",
    "20-25 a/ann claim n request=r | claimed n 1 980",
  ]);
  const reserved = "10-15 a/ann reserve n token=1 | kept 1 5000";
  valid("who goes on with what it reserved has as long as any other", [
    taken,
    reserved,
    "500-505 a/ann claim n | again n 1",
    "1510-1515 b/bob next | claimed n 2",
    "1520-1525 l/ann look n | nodes n:open:bob:2/bob",
  ]);
  valid("also if the reply to that was lost", [
    taken,
    reserved,
    "500-? a/ann status n token=1 status=active | unknown",
    "1510-1515 b/bob next | claimed n 2",
  ]);
  valid("also if it was stretched while it was reserved", [
    taken,
    reserved,
    "20-25 a/ann extend n token=1 | kept 1 6000",
    "500-505 a/ann renew n token=1 | kept 1",
    "1510-1515 b/bob next | claimed n 2",
  ]);
  broken("I2", "what is reserved is handed out", [
    taken,
    "5-7 a/ann renew n token=1 | kept 1",
    reserved,
    "1510-1515 b/bob next | claimed n 2",
  ]);
  broken("I2", "what was reserved is handed out too early once it is in work again", [
    taken,
    reserved,
    "500-505 a/ann renew n token=1 | kept 1",
    "1400-1405 b/bob next | claimed n 2",
  ]);
  broken("I2", "what an extend gave is over when a reservation ends", [
    taken,
    "6-8 a/ann extend n token=1 | kept 1 3000",
    reserved,
    "500-505 a/ann renew n token=1 | kept 1 2500",
    "1510-1515 b/bob next | claimed n 2",
  ]);
  valid("a restore ends leases", [taken, "300-305 b/bob claim n | claimed n 900"], {
    quiet: [{ from: 100, to: 200 }],
  });
  broken("I2", "two live holders", [taken, "500-505 b/bob claim n | claimed n 2"]);
  broken("I2", "two live holders, by next, after a renewal", [
    taken,
    "900-905 a/ann renew n token=1 | kept 1",
    "1500-1505 b/bob next | claimed n 2",
  ]);
  broken("I2", "work that another holds is handed out after an extension", [
    taken,
    "10-15 a/ann extend n token=1 | kept 1 5000",
    "3000-3005 b/bob next | claimed n 2",
  ]);
  broken("I9", "a token that goes back", [
    "0-5 a/ann claim n | claimed n 7",
    "10-15 a/ann release n token=7 | done",
    "20-25 b/bob claim n | claimed n 6",
  ]);
  broken("I10", "one token for two people", [
    taken,
    "10-15 a/ann release n token=1 | done",
    "20-25 b/bob claim n | claimed n 1",
  ]);
  broken("I16", "a lapsed lease is renewed", [taken, "1200-1205 a/ann renew n token=1 | kept 1"]);
  broken("I16", "renewed after another took over", [
    taken,
    "1010-1015 b/bob claim n | claimed n 2",
    "1016-1020 a/ann renew n token=1 | kept 1",
  ]);
  broken("I16", "released by who had lost it", [
    taken,
    "1010-1015 b/bob claim n | claimed n 2",
    "1016-1020 a/ann release n token=1 | done",
  ]);
  broken("I3", "a lapsed lease stands in the way", [taken, "2100-2105 b/bob claim n | taken 1 ann"]);
  broken("I28", "one that was released stands in the way", [
    taken,
    "10-15 a/ann release n token=1 | done",
    "20-25 b/bob claim n | taken 1 ann",
  ]);
  broken("I12", "its own claim stands in its way", [taken, "10-15 a/ann claim n | taken 1 ann"]);
  broken("I22", "a holder is told that it lost what it has", [taken, "10-15 a/ann renew n token=1 | lost"]);
  broken("I19", "a request is granted twice", [
    "0-5 a/ann next request=r | claimed n 1",
    "10-15 a/ann next request=r | claimed m 1",
  ]);
});

describe("the edge and the lease", () => {
  valid("whoever holds it carries it", [taken, "10-12 b/bob look n | nodes n:open:ann:1/ann"]);
  valid("the edge outlives the lease", [taken, "1200-1205 b/bob look n | nodes n:open:ann"]);
  broken("I30", "a lease without its edge", [taken, "10-12 b/bob look n | nodes n:open::1/ann"]);
  broken("I30", "a lease with another's edge", [taken, "10-12 b/bob list | nodes n:open:bob:1/ann m:open"]);
  broken("I30", "an edge that its history knows nothing of", [
    taken,
    "10-15 a/ann release n token=1 | done",
    "20-25 b/bob history n | entries created:ann claimed:ann:1 released:ann:1",
    "30-35 b/bob look n | nodes n:open:bob",
  ]);
});

describe("history", () => {
  const told = "2000-2005 l/ann history n | entries";
  const bob = "1010-1015 b/bob claim n | claimed n 2";
  valid("all that happened, once", [
    taken,
    bob,
    "1020-1025 b/bob status n token=2 status=active reason=x | updated 2",
    "1030-1035 b/bob release n token=2 | done",
    `${told} created:ann claimed:ann:1 lapsed:ann:1 taken_over:bob:2 status:bob:2:active:x released:bob:2`,
  ]);
  valid("a grant whose reply was lost", [
    "0-? a/ann next | unknown",
    `${told} created:ann claimed:ann:1 lapsed:ann:1`,
  ]);
  valid("what a restore forgot", [taken, `${told} created:ann`], { quiet: [{ from: 100, to: 200 }] });
  broken("I31", "a grant is missing", [taken, bob, `${told} created:ann claimed:ann:1 lapsed:ann:1`]);
  broken("I31", "a release is missing", [
    taken,
    "10-15 a/ann release n token=1 | done",
    `${told} created:ann claimed:ann:1 lapsed:ann:1`,
  ]);
  broken("I31", "a status is missing", [
    taken,
    "10-15 a/ann status n token=1 status=active reason=x | updated 1",
    `${told} created:ann claimed:ann:1 lapsed:ann:1`,
  ]);
  broken("I31", "a status is there twice", [
    taken,
    "10-15 a/ann status n token=1 status=active reason=x | updated 1",
    `${told} created:ann claimed:ann:1 status:ann:1:active:x status:ann:1:active:x lapsed:ann:1`,
  ]);
  broken("I31", "a grant that nobody asked for", [
    taken,
    `${told} created:ann claimed:ann:1 lapsed:ann:1 taken_over:bob:2 lapsed:bob:2`,
  ]);
  broken("I31", "one lost reply explains one grant, not two", [
    "0-? a/ann next | unknown",
    `${told} created:ann claimed:ann:1 lapsed:ann:1 claimed:ann:2 lapsed:ann:2`,
  ]);
  broken("I31", "a gap", [taken, `${told} created:ann #3claimed:ann:1 #4lapsed:ann:1`]);
  broken("I31", "tokens that fall", [
    "0-? a/ann claim n | unknown",
    "0-? b/bob claim n | unknown",
    `${told} created:ann claimed:ann:7 lapsed:ann:7 taken_over:bob:6 lapsed:bob:6`,
  ]);
  broken("I31", "a holder whose end is not told", [
    taken,
    bob,
    `${told} created:ann claimed:ann:1 taken_over:bob:2 lapsed:bob:2`,
  ]);
  broken("I31", "an entry that is gone", [
    "0-5 l/ann history n | entries created:ann updated:ann",
    "10-15 l/ann history n | entries created:ann",
  ]);
});

describe("the queue", () => {
  const all = "100-105 l/ann list | nodes n:open m:done k:active";
  valid("what is free, and nothing else", [all, "110-115 l/ann queue | nodes k:active n:open"]);
  valid("what was claimed in between is not looked at", [
    all,
    "104-112 b/bob claim n | claimed n 1",
    "110-115 l/ann queue | nodes k:active",
  ]);
  broken("I32", "free work is missing", [all, "110-115 l/ann queue | nodes n:open"]);
  broken("I32", "work that is over is queued", [all, "110-115 l/ann queue | nodes n:open k:active m:done"]);
  broken("I22", "a node is lost", ["0-5 a/ann create x | done", "100-105 l/ann list | nodes n:open"]);
});
