import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Code } from '../../src/core/code.js';
import { built, opened } from '../build.js';
import { world } from '../world.js';

test('frames and stacks are decoded', () => {
  for (let seed = 0; seed < 20; seed++) {
    const plain = world(seed, 5);
    const of = {
      ...plain,
      frames: plain.frames.map(
        ([name, file, line], i) => [name, file, line, i % plain.texts.length] as const,
      ),
    };
    const engine = opened(of);
    const { functions, files, lines, sources } = engine.frames(0);
    assert.deepEqual(
      Array.from(functions, (name, i) => [name, files[i], lines[i], sources[i]]),
      of.frames,
    );
    of.stacks.forEach(({ frames, code }, k) => {
      const found = engine.stack(0, k);
      assert.deepEqual([[...found.frames], [...found.code]], [frames, code]);
    });
    for (const none of [-1, of.stacks.length, of.stacks.length + 1]) {
      assert.deepEqual([...engine.stack(0, none).frames], []);
    }
  }
});

test("a stack's nodes in a tree", () => {
  const of = {
    ...world(1, 5),
    stacks: [
      { frames: [3, 1, 3], code: [0, 1, 1] },
      { frames: [2, 1], code: [0, 0] },
      { frames: [], code: [] },
    ],
  };
  const { page, data } = built(of);
  const code = new Code(page.snapshots[0]!, data[0]!);
  let named: Int32Array | null = null;
  const shown = (stack: number, frames: 'all' | 'code'): number[] => {
    const into = [99];
    code.path(stack, frames, named, into);
    return into;
  };
  assert.deepEqual(shown(0, 'all'), [3, 1, 3]);
  assert.deepEqual(shown(0, 'code'), [1, 3]);
  assert.deepEqual(shown(1, 'code'), [2]);
  assert.deepEqual(
    [2, 3, 4].map((stack) => shown(stack, 'code')),
    [[-2], [-2], [-3]],
  );
  named = Int32Array.of(0, 5, 0, 1, 2);
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((stack) => shown(stack, 'code')),
    [[1, 3], [-16 - 5], [-2], [-2], [-3]],
  );
  assert.deepEqual(shown(1, 'all'), [2, 1]);
});
