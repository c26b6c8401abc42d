// Judges kept histories again: node dist/test/evidence/recheck.js FILE... Ends with 1 if one breaks a promise.
import { check } from "../../src/verify/check.js";
import { loadRuns } from "./history-file.js";

let isRed = false;
for (const file of process.argv.slice(2))
  for (const { workload, history } of loadRuns(file)) {
    const { violations, unknown, operations } = check(history);
    process.stdout.write(
      `${file} ${workload}: ${operations} operations, ${violations.length} violations, ${unknown.length} unknown\n`,
    );
    for (const { invariant, name, says, operations: at } of violations)
      process.stdout.write(`  ${invariant} ${name}: ${says} (operations ${at.join(", ")})\n`);
    for (const name of unknown) process.stdout.write(`  no verdict on ${name}\n`);
    isRed ||= violations.length > 0 || unknown.length > 0;
  }
process.exitCode = isRed ? 1 : 0;
