// The page's side of the worker: one line at a time, and another worker if one breaks or is stopped.

import type { FromWorker, Opened, Parts, Ran, ToWorker } from './protocol.js';

/** The worker can't go on, for a reason that Python or the browser gives. */
export class Broken extends Error {}
/** The user stopped the line. */
export class Stopped extends Error {}

interface Waiting {
  line: string;
  columns: number;
  done: (ran: Ran) => void;
  failed: (error: Error) => void;
}

export class Client {
  private worker: Worker | null = null;
  private waiting: ToWorker[] = [];
  private queue: Waiting[] = [];
  private running: Waiting | null = null;
  private number = 0;
  private files: Opened[] = [];
  /** Why there can't be a worker. */
  private unable: Broken | null = null;

  constructor(
    private readonly script: () => Promise<Blob>,
    private readonly parts: Parts,
    private readonly told: (message: FromWorker) => void,
  ) {
    void this.spawn();
  }

  /** Makes files known to the commands. */
  open(opened: Opened[]): void {
    this.files.push(...opened);
    this.tell({ what: 'open', opened });
  }

  close(path: string): void {
    this.files = this.files.filter((one) => one.path !== path);
    this.tell({ what: 'close', paths: [path] });
  }

  /** Runs a command line after those that wait; `first` before them. */
  run(line: string, columns: number, first = true): Promise<Ran> {
    if (this.unable) return Promise.reject(this.unable);
    return new Promise((done, failed) => {
      const one = { line, columns, done, failed };
      if (first) this.queue.unshift(one);
      else this.queue.push(one);
      this.next();
    });
  }

  /** Stops the running line and those that wait. Only another worker can interrupt a line. */
  stop(): void {
    const waiting = this.queue.splice(0);
    this.restart(new Stopped());
    for (const one of waiting) one.failed(new Stopped());
  }

  private next(): void {
    if (this.running || !this.queue.length) return;
    this.running = this.queue.shift()!;
    const { line, columns } = this.running;
    this.tell({ what: 'run', number: ++this.number, line, columns });
  }

  private async spawn(): Promise<void> {
    this.worker = null;
    this.waiting = [{ what: 'start', parts: this.parts }];
    try {
      await this.begin();
    } catch (error) {
      this.unable = new Broken((error as Error).message);
      this.told({ what: 'broken', number: null, reason: this.unable.message });
      const waiting = this.queue.splice(0);
      for (const one of [this.running, ...waiting]) one?.failed(this.unable);
      this.running = null;
    }
  }

  private async begin(): Promise<void> {
    const url = URL.createObjectURL(await this.script());
    const worker = new Worker(url);
    URL.revokeObjectURL(url);
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.take(data);
    worker.onerror = (event) => {
      event.preventDefault();
      this.take({ what: 'broken', number: this.number, reason: event.message });
    };
    this.worker = worker;
    for (const message of this.waiting) worker.postMessage(message);
  }

  private take(message: FromWorker): void {
    if (message.what === 'ran') {
      const one = this.running;
      this.running = null;
      one?.done(message.ran);
      this.next();
    } else if (message.what === 'broken' && message.number !== null && this.running) {
      this.restart(new Broken(message.reason));
      return;
    }
    this.told(message);
  }

  private restart(reason: Error): void {
    this.worker?.terminate();
    const one = this.running;
    this.running = null;
    void this.spawn();
    if (this.files.length) this.tell({ what: 'open', opened: this.files });
    one?.failed(reason);
    this.next();
  }

  private tell(message: ToWorker): void {
    if (this.worker) this.worker.postMessage(message);
    else this.waiting.push(message);
  }
}
