// Who calls: workers that every server of the evidence knows, and an operator.
import { adminToken } from "../server.js";

/** Enough for two processes with four of their own each. */
export const principals = Array.from({ length: 8 }, (_, nth) => ({
  name: `worker-${nth}`,
  bearer: `secret-of-worker-${nth}`,
}));
export const operator = { name: "operator", bearer: adminToken };

/** As the program is told of the workers. */
export const tokens = principals.map(({ name, bearer }) => `${name}:${bearer}`).join(",");
