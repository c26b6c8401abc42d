// etcd as the evidence runs it: three real members that faults can crash, stop and cut off, and two Holdfast servers on them.

import { startEtcd } from "../etcd-lab.js";
import { until } from "../system-client.js";
import { type Database, isStopped } from "./database.js";
import { type Found, sharedEngine } from "./shared-engine.js";
import { Wire } from "./wire.js";

const found: Found = async (servers) => {
  const lab = await startEtcd({ members: 3 });
  const wires = await Promise.all(
    Array.from({ length: servers }, () => Promise.all(lab.members.map(({ port }) => Wire.start(port)))),
  );
  const isThere = async (member: (typeof lab.members)[number]): Promise<true | undefined> =>
    member.status().then(
      () => true,
      () => undefined,
    );
  const database: Database = {
    crash: async () => {
      const leader = await lab.leader();
      await leader.kill();
      const wasGone = (await isThere(leader)) === undefined;
      leader.start();
      await until(() => isThere(leader), "the member is back");
      return wasGone;
    },
    freeze: async () => {
      const leader = await lab.leader();
      leader.signal("SIGSTOP");
      return { isStopped: () => isStopped(leader.pid), thaw: () => leader.signal("SIGCONT") };
    },
    wires,
    [Symbol.asyncDispose]: async () => {
      await lab.stop();
      for (const wire of wires.flat()) await wire[Symbol.asyncDispose]();
    },
  };
  const stores = wires.map((own) => `etcd://${own.map(({ port }) => `127.0.0.1:${port}`).join(",")}/`);
  return { database, stores };
};

export const etcd = sharedEngine("etcd", found, {
  inapplicable: {
    backends: "it keeps nothing for a connection",
    "database-clock": "its members' clocks are asked for nothing, and libfaketime cannot step them",
  },
});
