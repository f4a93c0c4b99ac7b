// The differences between two snapshots: the report of `memreplay diff`, and a flame graph.

import { useAnswer } from './answers.js';
import { Flame, type FrameName } from './canvas/flame.js';
import { commandOf } from './commands.js';
import { useCompared } from './comparing.js';
import { Copying } from './copying.js';
import { FrameChoices, frameName, zoomOf } from './flame.js';
import { useGround } from './ground.js';
import { momentName } from './moving.js';
import { Blocks } from './report.js';
import { canvasSvg } from './saving.js';
import { LETTERS } from './snapshots.js';
import { signedSize, size } from './units.js';

const LEAST = 1 / 5000;

export function Diff() {
  const ground = useGround();
  const { page, engine, state, counted: measure } = ground;
  const pair = useCompared();
  const filter = state.search ? { include: state.search } : null;
  const key =
    pair &&
    JSON.stringify([
      pair.map(({ place, at }) => [place, at]),
      measure,
      state.root,
      state.frames,
      filter,
    ]);
  const answer = useAnswer(key ?? '', async () => {
    if (!pair) return null;
    const [before, after] = pair;
    const { root, frames } = state;
    const bytes = await engine.bytesAt(before.place, measure, before.at);
    const least = Math.max(1, Math.floor(bytes * LEAST));
    const query = { measure, root, frames, filter, least };
    return engine.treeOfDifferences(
      { ...query, place: before.place, moment: before.at },
      { ...query, place: after.place, moment: after.at },
    );
  });
  const tree = answer.value;
  return (
    <div class="panel">
      <div class="toolbar">
        <FrameChoices ground={ground} tab="diff" />
        <ul class="key" aria-label="Colours">
          <li class="more">■ grew</li>
          <li class="less">■ shrank</li>
        </ul>
        {tree && pair && (
          <span class="sum">
            {LETTERS[0]} {size(tree.before[0] ?? 0)} at {momentName(pair[0], pair[0].at)},{' '}
            {LETTERS[1]} {size(tree.bytes[0] ?? 0)} at {momentName(pair[1], pair[1].at)}:{' '}
            <strong
              data-what="difference"
              data-bytes={(tree.bytes[0] ?? 0) - (tree.before[0] ?? 0)}
            >
              {signedSize((tree.bytes[0] ?? 0) - (tree.before[0] ?? 0))}
            </strong>
          </span>
        )}
        <Copying
          name="diff"
          command={commandOf(ground, 'diff')}
          note="at the peaks"
          picture={() => canvasSvg('.mr-flame canvas')}
        />
      </div>
      {answer.error && <p class="failed">{answer.error}</p>}
      <div class="differences">
        {tree && pair && (
          <div class="graph">
            <p class="dim" data-what="widths">
              At the cursors: a box is as wide as the larger of A and B, and shows the change:
            </p>
            <Flame
              tree={tree}
              before={tree.before}
              {...zoomOf(state, 'diff')}
              names={(frame, node) =>
                withLines(
                  frameName(pair[tree.frameOf[node] ? 1 : 0], frame),
                  tree.lineBefore[node]!,
                  tree.lineAfter[node]!,
                )
              }
            />
          </div>
        )}
        {page.diff && (
          <div>
            <p class="dim">memreplay diff of the two peaks, independent of the cursors:</p>
            <Blocks blocks={page.diff} />
          </div>
        )}
      </div>
    </div>
  );
}

/** `model.py:28→31`: the frame's line in each snapshot. */
function withLines({ title, detail, where = '' }: FrameName, a: number, b: number): FrameName {
  const lines = a && b && a !== b ? `:${a}→${b}` : a || b ? `:${a || b}` : '';
  const [long, short] = [detail, where].map((one) => one.replace(/:\d+$/, lines));
  return { title, detail: long!, where: short! };
}
