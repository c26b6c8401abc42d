/** The rows of the route table for bearer tokens and for those who run the server. */
import Type from "typebox";
import { EmptyRequest, type WireLimits } from "./fields.js";
import { AuditList, auditQuery, Health, Ready, WhoAmI } from "./operate.js";
import { problem, type Replies, type Route } from "./route.js";
import { createTokenRequest, TokenCreated, TokenList } from "./tokens.js";

const unknownToken: Replies = { 404: problem("`not_found`: no such token in this space.") };

/** Nothing here names a lease, so a token's scopes are not asked. */
const kind = { names: "none", load: "operate" } as const;

export function tokenRoutes(limits: WireLimits): Route[] {
  const token = { ...kind, tag: "tokens", access: "admin" } as const;
  return [
    {
      ...token,
      id: "createToken",
      method: "POST",
      path: "/tokens",
      summary: "Make a bearer token",
      description: "Its name is the principal that its leases are held by. The token is shown this once.",
      body: createTokenRequest(limits),
      replies: {
        201: { description: "Made.", schema: TokenCreated },
        409: problem(
          "`conflict`: the name is in use in this space (rotate that token, or revoke it first), or comes from the server's configuration.",
        ),
      },
    },
    {
      ...token,
      id: "listTokens",
      method: "GET",
      path: "/tokens",
      summary: "List bearer tokens",
      description: "All tokens of the space, without their secrets.",
      replies: { 200: { description: "The tokens.", schema: TokenList } },
    },
    {
      ...token,
      id: "revokeToken",
      method: "DELETE",
      path: "/tokens/{id}",
      summary: "Revoke a bearer token",
      description: "In force within a second, open streams included. Its leases run out on their own.",
      replies: { 204: { description: "Revoked." }, ...unknownToken },
    },
    {
      ...token,
      id: "rotateToken",
      method: "POST",
      path: "/tokens/{id}/rotate",
      summary: "Replace a bearer token's secret",
      description: "Same name, so the same principal and leases; the old secret stops working.",
      body: EmptyRequest,
      replies: {
        200: { description: "The new token, shown this once.", schema: TokenCreated },
        ...unknownToken,
      },
    },
  ];
}

export function operateRoutes(limits: WireLimits): Route[] {
  const operate = { ...kind, tag: "operate", method: "GET" } as const;
  return [
    {
      ...operate,
      id: "whoami",
      path: "/whoami",
      summary: "Who this bearer token is",
      description: "The principal, space, role and scopes that the server sees.",
      access: "observer",
      replies: { 200: { description: "You.", schema: WhoAmI } },
    },
    {
      ...operate,
      id: "listAudit",
      path: "/audit",
      summary: "Read the audit trail",
      description:
        "Force releases, changes of tokens and of policies, and restores, the oldest first, a page at a time.",
      access: "admin",
      query: auditQuery(limits),
      replies: { 200: { description: "One page.", schema: AuditList } },
    },
    {
      ...operate,
      id: "backup",
      path: "/backup",
      summary: "Stream a copy of the data",
      description:
        "A consistent copy, taken while the server runs. It holds secrets: keep it as you keep the data.",
      access: "operator",
      replies: {
        200: { description: "The copy.", schema: Type.String(), contentType: "application/octet-stream" },
      },
    },
    {
      ...operate,
      id: "health",
      path: "/health",
      summary: "Is it working",
      description:
        "Touches the store: 200 means that it can be read, and that it has not just failed to write.",
      access: "open",
      replies: {
        200: { description: "Working.", schema: Health },
        503: problem("`unavailable`: the store cannot be used now; the server's log says why."),
      },
    },
    {
      ...operate,
      id: "ready",
      path: "/ready",
      summary: "Should it get traffic",
      description: "503 while starting and while shutting down.",
      access: "open",
      replies: {
        200: { description: "Ready.", schema: Ready },
        503: problem("`unavailable`: starting or shutting down."),
      },
    },
    {
      ...operate,
      id: "metrics",
      path: "/metrics",
      summary: "Prometheus metrics",
      description: "Needs no token from loopback.",
      access: "observer",
      replies: { 200: { description: "Metrics.", schema: Type.String(), contentType: "text/plain" } },
    },
    {
      ...operate,
      id: "openapi",
      path: "/openapi.json",
      summary: "This document",
      description: "The API as OpenAPI 3.1.",
      access: "open",
      replies: { 200: { description: "The document.", schema: Type.Object({}) } },
    },
    {
      ...operate,
      id: "docs",
      path: "/docs",
      summary: "This API as a page for people",
      description: "Self-contained: it loads nothing from elsewhere.",
      access: "open",
      replies: { 200: { description: "The page.", schema: Type.String(), contentType: "text/html" } },
    },
  ];
}
