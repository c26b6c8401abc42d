/**
 * The one route table: every route of the HTTP face. The server registers exactly these, and the OpenAPI document
 * lists exactly these.
 */
import type { WireLimits } from "./fields.js";
import { jobRoutes } from "./job-routes.js";
import { lockRoutes } from "./lock-routes.js";
import { nodeClaimRoutes } from "./node-claim-routes.js";
import { nodeRoutes, withNodeReplies } from "./node-routes.js";
import { operateRoutes, tokenRoutes } from "./operate-routes.js";
import { type Route, withSharedReplies } from "./route.js";
import { sessionRoutes } from "./session-routes.js";

export type { Access, Load, Naming, Replies, Reply, RequestHeader, Route, RouteId, Tag } from "./route.js";

export function routes(limits: WireLimits): Route[] {
  const rows = [lockRoutes, jobRoutes, sessionRoutes, tokenRoutes, operateRoutes].flatMap((of) => of(limits));
  const graph = [nodeRoutes, nodeClaimRoutes].flatMap((of) => of(limits));
  return [...rows.map(withSharedReplies), ...graph.map(withNodeReplies)];
}
