/** Between `holdfast run` and its keeper. Moments are on clocks that all processes of a machine share. */
import type { Moment } from "../../../client/durations.js";
import type { Place } from "../place.js";
import type { Command } from "./victims.js";

export interface ToKeep {
  readonly place: Place;
  readonly name: string;
  readonly leaseId: string;
  readonly renewAfterMs: number;
  readonly expiresInMs: number;
  readonly sentAt: Moment;
  /** Whether the command is ended when the lease is lost. */
  readonly kills: boolean;
}

export type ToKeeper =
  | { readonly type: "keep"; readonly lease: ToKeep }
  /** The command is about to be started: from here on there may be one. */
  | { readonly type: "starting" }
  | { readonly type: "started"; readonly command: Command }
  /** The command has ended: release and go. */
  | { readonly type: "done" };

export type FromKeeper =
  | { readonly type: "ready" }
  | { readonly type: "renewed"; readonly sentAt: Moment; readonly expiresInMs: number }
  /** Why the last attempt to renew failed; empty once one succeeds. */
  | { readonly type: "trouble"; readonly trouble: string }
  /** The command was asked to stop. */
  | { readonly type: "asked"; readonly why: string }
  | { readonly type: "lost"; readonly why: string };
