// A panel's field options applied by Grafana's own code; the list of them is in Grafana's core, not on npm.
import {
  applyFieldOverrides,
  FieldColorModeId,
  standardEditorsRegistry,
  standardFieldConfigEditorRegistry,
  ThresholdsMode,
} from '@grafana/data';

const STANDARD = ['displayName', 'unit', 'decimals', 'min', 'max', 'color', 'thresholds', 'mappings', 'links', 'noValue'];

standardEditorsRegistry.setInit(() => []);
standardFieldConfigEditorRegistry.setInit(() =>
  STANDARD.map((id) => ({
    id,
    path: id,
    name: id,
    process: (value) => value,
    override: () => null,
    editor: () => null,
    shouldApply: () => true,
    getItemsCount: () => 0,
  }))
);

/** What the panel plugins put in where a board says nothing. */
const DEFAULTS = {
  color: { mode: FieldColorModeId.PaletteClassic },
  thresholds: { mode: ThresholdsMode.Absolute, steps: [{ value: -Infinity, color: 'green' }] },
  custom: {},
};

export function withOptions(data, panel, theme, chosen) {
  const said = panel.fieldConfig.defaults;
  const steps = said.thresholds?.steps.map((step) => ({ ...step, value: step.value ?? -Infinity }));
  const defaults = { ...DEFAULTS, ...said, ...(steps && { thresholds: { ...said.thresholds, steps } }) };
  const fieldConfig = { defaults, overrides: panel.fieldConfig.overrides ?? [] };
  const replaceVariables = (text) => text.replace(/\$\{?([a-z_]\w*)\}?/g, (whole, name) => chosen[name] ?? whole);
  const applied = applyFieldOverrides({ data, fieldConfig, replaceVariables, theme, timeZone: 'utc' });
  for (const frame of applied) {
    for (const field of frame.fields) {
      field.config = { ...field.config, custom: { ...said.custom, ...field.config.custom } };
    }
  }
  return applied;
}
