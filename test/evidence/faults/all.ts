// Every fault, in the order of the table.
import { backends } from "./backends.js";
import { clock } from "./clock.js";
import { databaseClock } from "./database-clock.js";
import { databasePartition } from "./database-partition.js";
import { databaseRestart } from "./database-restart.js";
import { databaseStop } from "./database-stop.js";
import { diskFull } from "./disk-full.js";
import { duplicates } from "./duplicates.js";
import type { Fault } from "./fault.js";
import { fsync } from "./fsync.js";
import { kill } from "./kill.js";
import { late } from "./late.js";
import { lostPush } from "./lost-push.js";
import { lostReplies } from "./lost-replies.js";
import { none } from "./none.js";
import { partition } from "./partition.js";
import { restart } from "./restart.js";
import { restore } from "./restore.js";
import { stopClient } from "./stop-client.js";
import { stopServer } from "./stop-server.js";

export const faults: readonly Fault[] = [
  none,
  kill,
  stopServer,
  stopClient,
  lostReplies,
  late,
  duplicates,
  partition,
  clock,
  diskFull,
  fsync,
  restart,
  restore,
  lostPush,
  databaseRestart,
  databaseStop,
  databasePartition,
  backends,
  databaseClock,
];
