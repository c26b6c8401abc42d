// A hundred `holdfast run` on one name at the same time: all run, one at a time, in the order of the server's queue.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { contentOf, isFree, lockOf, type Started, start, until } from "./cli-run-lab.js";
import { type Server, startServer, temporaryDir } from "./server.js";

const runners = 100;
/** Between two starts: a hundred programs that start at once only hinder one another. */
const spreadMs = 150;
/**
 * A wait is repeated every 20 s. Whoever is between two repeats at the very moment of a release is passed over once, and
 * at the moment in which another is told its place is not counted: so far may a turn be from the place that was shown.
 */
const placesOff = 3;

describe("a hundred wait in line", () => {
  let server: Server;
  before(async () => {
    server = await startServer();
  });
  after(() => server[Symbol.asyncDispose]());

  test("all run, one at a time, in the order of the queue", async () => {
    const dir = temporaryDir("holdfast-queue-");
    const log = join(dir, "log");
    const gate = join(dir, "open");
    const first = start(server, [
      "run",
      "one",
      "--",
      "sh",
      "-c",
      `while [ ! -e ${gate} ]; do sleep 0.1; done`,
    ]);
    await until("held", async () => !(await isFree(server, "one")));
    const all: Started[] = [];
    for (let index = 0; index < runners; index++) {
      const script = `echo "begin $0 $HOLDFAST_FENCING_TOKEN" >> ${log}; echo "end $0" >> ${log}`;
      all.push(start(server, ["run", "one", "--wait", "5m", "--", "sh", "-c", script, String(index)]));
      await delay(spreadMs);
    }
    const inLine = async (): Promise<boolean> => (await lockOf(server, "one")).waiters === runners;
    await until("all wait", inLine, 4 * 60_000);
    const placeOf = (one: Started): number => Number(/, place (\d+) of /.exec(one.stderr())?.[1] ?? 0);
    await until("all were told their place", () => all.every((one) => placeOf(one) > 0), 60_000);
    writeFileSync(gate, "");
    assert.equal(await first.ended, 0, first.stderr());
    for (const one of all) assert.equal(await one.ended, 0, one.stderr());

    const lines = contentOf(log).trim().split("\n");
    const turns = lines.filter((line) => line.startsWith("begin ")).map((line) => line.split(" "));
    // One at a time: each ends before the next begins.
    const expected = turns.flatMap(([, index, token]) => [`begin ${index} ${token}`, `end ${index}`]);
    assert.deepEqual(lines, expected);
    // All of them, each under the token after the one before.
    assert.deepEqual(
      turns.map(([, , token]) => Number(token)),
      Array.from({ length: runners }, (_, index) => index + 2),
    );
    const places = turns.map(([, index]) => placeOf(all[Number(index)] as Started));
    const isInTurn = (place: number, at: number): boolean => Math.abs(place - (at + 1)) <= placesOff;
    assert.ok(places.every(isInTurn), `in the order of their places: ${places.join(" ")}`);
    assert.ok(await isFree(server, "one"));
  });
});
