// Requests and answers, and a worker that is terminated because a search hangs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Answer, type Call, type Port, remote } from '../../src/worker/rpc.js';

/** A worker that answers with the call's method and arguments, until a search makes it hang. */
class Fake implements Port {
  onmessage: ((event: MessageEvent<Answer>) => void) | null = null;
  readonly asked: string[] = [];
  ended = false;
  private hangs = false;

  postMessage(message: unknown): void {
    const { id, method, args } = message as Call;
    this.asked.push(method);
    if (JSON.stringify(args).includes('(a+)+')) this.hangs = true;
    if (this.hangs) return;
    setTimeout(() => {
      if (this.ended) return;
      const answer = method === 'fails' ? { id, error: 'no' } : { id, value: [method, ...args] };
      this.onmessage?.({ data: answer } as MessageEvent<Answer>);
    });
  }

  terminate(): void {
    this.ended = true;
  }
}

type Any = Record<string, (...args: unknown[]) => Promise<unknown>>;

test('each request gets its own answer', async () => {
  const engine = remote(() => new Fake()) as unknown as Any;
  assert.deepEqual(await Promise.all([engine['one']!(1), engine['two']!(2, 3)]), [
    ['one', 1],
    ['two', 2, 3],
  ]);
  await assert.rejects(engine['fails']!(), /^Error: no$/);
});

test('a search that hangs is stopped, and other requests are answered', async () => {
  const workers: Fake[] = [];
  const start = () => {
    workers.push(new Fake());
    return workers[workers.length - 1]!;
  };
  const engine = remote(start, 30) as unknown as Any;
  await engine['open']!(0);
  const search = engine['holders']!({ filter: { include: '(a+)+$' } });
  const other = engine['bytesAt']!(7);
  await assert.rejects(search, /took too long/);
  assert.deepEqual(await other, ['bytesAt', 7]);
  assert.deepEqual(
    workers.map(({ ended }) => ended),
    [true, false],
  );
  assert.deepEqual(workers[1]!.asked, ['open', 'bytesAt']);
  assert.deepEqual(await engine['later']!(), ['later']);
});

test("a search that is answered in time doesn't restart the worker", async () => {
  let started = 0;
  const engine = remote(() => {
    started++;
    return new Fake();
  }, 20) as unknown as Any;
  await engine['holders']!({ filter: { include: 'a' } });
  await new Promise((done) => setTimeout(done, 40));
  assert.equal(started, 1);
});
