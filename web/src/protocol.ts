// The messages between the page, its worker, and the frame with the interactive page.

import type { Found } from './dropped.js';

/** The files that the worker starts from, each compressed (packed.ts). */
export const PARTS = ['python.wasm', 'stdlib.zip', 'site.zip.zst', 'lock.json'] as const;
export type Part = (typeof PARTS)[number];
export type Parts = Record<Part, string>;

/** An open file: its name in the working folder, which can have one folder. */
export interface Opened {
  path: string;
  file: File;
}

export interface Written {
  name: string;
  bytes: Uint8Array<ArrayBuffer>;
}

/** How many bytes of a file have been read. */
export interface Progress {
  path: string;
  done: number;
  total: number;
}

/** What a command line did. */
export interface Ran {
  code: number;
  text: string;
  said: string;
  written: Written[];
  /** Milliseconds that it took, and the bytes of the worker's heap afterwards. */
  took: number;
  heap: number;
}

export type FromFrame =
  /** Whether something is dragged over the frame. */
  | { what: 'over'; on: boolean }
  | { what: 'dropped'; found: Found[] }
  /** A folder was dropped, which a sandboxed frame can't read. */
  | { what: 'folder' };

export type ToWorker =
  | { what: 'start'; parts: Parts }
  | { what: 'open'; opened: Opened[] }
  | { what: 'close'; paths: string[] }
  | { what: 'run'; number: number; line: string; columns: number };

export type FromWorker =
  | { what: 'ready'; took: number }
  | ({ what: 'progress' } & Progress)
  | { what: 'ran'; number: number; ran: Ran }
  /** The worker can't go on: `number` is the line that it ran; null if it ran none. */
  | { what: 'broken'; number: number | null; reason: string };
