// The database's disk is full while two servers write: every call ends with a definite answer or with "nobody knows", nothing that was
// answered is lost, and with room again work goes on, after a start of the database if it did not survive.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { openPostgres } from "../src/engines/postgres/open.js";
import { SmallDisk } from "./postgres-disk.js";
import { Postgres } from "./postgres-lab.js";
import { Ledger } from "./postgres-ledger.js";
import { held, putLock } from "./store-lab.js";

test("a full disk is told, loses nothing, and is over when there is room again", async (t) => {
  const disk = await SmallDisk.make(160 * 2 ** 20);
  const server = await Postgres.start({ disk, settings: { max_wal_size: "32MB", min_wal_size: "32MB" } });
  try {
    const place = await server.database();
    const stores = [await openPostgres(place), await openPostgres(place)];
    const ledger = new Ledger();
    ledger.start(stores, 8);
    await ledger.untilDone(20_000);
    const makeRoom = disk.fill();
    // Fresh names make the tables grow, and with them the log: either finds no room.
    const grown = { told: new Set<string>() };
    for (let i = 0; i < 4000 && grown.told.size === 0; i++)
      await putLock(stores[0] ?? assert.fail(), held(`grow-${i}-${"x".repeat(200)}`, 1)).catch(
        (error: Error) => grown.told.add(error.message),
      );
    assert.ok(grown.told.size > 0, "the disk was never full");
    const before = { ...ledger.counts };
    await delay(1500);
    t.diagnostic(`${[...grown.told][0]}; ${JSON.stringify(before)} then ${JSON.stringify(ledger.counts)}`);
    makeRoom();
    if (server.hasEnded) await server.launch();
    await ledger.untilDone(30_000);
    await ledger.stop();
    await ledger.check(stores[1] ?? assert.fail());
    for (const store of stores) await store.close();
  } finally {
    await server.stop();
    disk.remove();
  }
});
