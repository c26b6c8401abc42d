/** The rows of the route table under `/sessions`. */
import { EmptyRequest, type WireLimits } from "./fields.js";
import { problem, type Replies, type Route } from "./route.js";
import { createSessionRequest, KeepaliveReply, SessionCreated, SessionView } from "./sessions.js";

const unknown: Replies = { 404: problem("`not_found`: the session is unknown or another's.") };

export function sessionRoutes(limits: WireLimits): Route[] {
  return [
    {
      id: "createSession",
      tag: "sessions",
      method: "POST",
      path: "/sessions",
      summary: "Begin a session",
      description: "Leases taken with its `session_id` live while it lives and end when it ends.",
      access: "worker",
      names: "none",
      load: "take",
      body: createSessionRequest(limits),
      replies: { 201: { description: "Created.", schema: SessionCreated } },
    },
    {
      id: "keepaliveSession",
      tag: "sessions",
      method: "POST",
      path: "/sessions/{id}/keepalive",
      summary: "Keep a session alive",
      description: "Keeps all its leases alive with one write, however many there are.",
      access: "worker",
      names: "none",
      load: "keep",
      body: EmptyRequest,
      replies: {
        200: { description: "Alive.", schema: KeepaliveReply },
        410: problem("`session_expired`: its leases are over too. Make a new session."),
        ...unknown,
      },
    },
    {
      id: "getSession",
      tag: "sessions",
      method: "GET",
      path: "/sessions/{id}",
      summary: "Look at a session",
      description: "Only the principal that made it can see it.",
      access: "worker",
      names: "none",
      load: "look",
      replies: { 200: { description: "The session as it is now.", schema: SessionView }, ...unknown },
    },
    {
      id: "deleteSession",
      tag: "sessions",
      method: "DELETE",
      path: "/sessions/{id}",
      summary: "End a session",
      description: "Its leases end at that very moment.",
      access: "worker",
      names: "none",
      load: "keep",
      replies: { 204: { description: "Ended." }, ...unknown },
    },
  ];
}
