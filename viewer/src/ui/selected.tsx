// The selection that limits this view, with a button to clear it.

import { type Ground, groupLines, groupsOf } from './ground.js';
import { elided, groupWords } from './labels.js';

export function Selected({ ground }: { ground: Ground }) {
  const { state, device, change } = ground;
  const { group, of } = state;
  if (group === null || !groupsOf(device, of)) return null;
  const [name = ''] = groupLines(ground, of, group);
  return (
    <button
      type="button"
      class="selected"
      data-what="selected"
      title={`Only ${of} ${name}: click to show all`}
      onClick={() => change({ group: null })}
    >
      only {of === 'stack' ? '' : `${of} `}
      <b>{elided(groupWords(ground, of, group, true).slice(0, 1), 60)}</b> ×
    </button>
  );
}
