// The buttons at the end of a page's bar: a link to the view, the theme, and the keys.

import { copyText, DoneButton } from './copying.js';
import { dark, nextTheme } from './theme.js';

export function Buttons({ showHelp }: { showHelp: () => void }) {
  return (
    <div class="buttons">
      <DoneButton
        label="link"
        title="Copy a link to this view"
        done="copied"
        act={() => copyText(location.href)}
      />
      <button type="button" class="small" onClick={nextTheme} title="Light or dark (t)">
        {dark.value ? 'light' : 'dark'}
      </button>
      <button type="button" class="small" onClick={showHelp} title="Keys (?)" aria-label="Help">
        ?
      </button>
    </div>
  );
}
