// PostgreSQL as the evidence runs it: a real server that faults can crash, stop, cut off and set the clock of, and two Holdfast
// servers on it.
import { dirname } from "node:path";
import { giveAway, Postgres } from "../postgres-lab.js";
import { wallClock } from "../system-wall-clock.js";
import { type Database, isStopped } from "./database.js";
import { type Found, sharedEngine } from "./shared-engine.js";
import { Wire } from "./wire.js";

const found: Found = async (servers) => {
  const wall = wallClock();
  giveAway(dirname(wall.env.FAKETIME_TIMESTAMP_FILE ?? ""));
  const server = await Postgres.start({ env: wall.env });
  const name = new URL(await server.database()).pathname.slice(1);
  const wires = await Promise.all(Array.from({ length: servers }, () => Wire.start(server.port)));
  const database: Database = {
    crash: async () => {
      const { pid } = server;
      await server.restart(); // -m immediate
      return server.pid !== pid;
    },
    freeze: async () => {
      const stopped = server.signalAll("SIGSTOP");
      return {
        isStopped: () => isStopped(server.pid),
        thaw: () => server.signalThese(stopped, "SIGCONT"),
      };
    },
    cutOne: async (random) => {
      const rows = await server.sql("SELECT pid FROM pg_stat_activity WHERE usename = 'holdfast'");
      const one = rows[Math.floor(random() * rows.length)];
      if (one === undefined) return 0;
      const [cut] = await server.sql("SELECT pg_terminate_backend($1) AS done", [one.pid]);
      return cut?.done === true ? rows.length : 0;
    },
    clock: {
      wall,
      now: async () => {
        const [row] = await server.sql("SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS at");
        return Number(row?.at);
      },
    },
    wires: wires.map((wire) => [wire]),
    [Symbol.asyncDispose]: async () => {
      await server.stop();
      for (const wire of wires) await wire[Symbol.asyncDispose]();
    },
  };
  return { database, stores: wires.map(({ port }) => server.url(name, port)) };
};

export const postgres = sharedEngine("postgres", found, { inapplicable: {} });
