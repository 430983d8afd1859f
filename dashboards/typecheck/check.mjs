// Checks grafana/*.json, and what 'inferbeat dashboards --form v2' makes of them, against
// the types of Grafana itself.
//
//   cd dashboards/typecheck && npm install --ignore-scripts && npm run check
//
// Known differences are not errors: TypeScript wants names of enums where JSON has
// their values, and its types of a variable and of a query are the common part only.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

const boards = new URL('../grafana/', import.meta.url);
const out = new URL('./out/', import.meta.url);
const known = [
  /Type '"[\w-]+"' is not assignable to type '(ThresholdsMode|FieldColorModeId|MappingType)'/,
  /'"definition"' does not exist in type 'VariableModel'/,
  /'"(expr|editorMode|instant|range)"' does not exist in type 'DataQuery'/,
];

rmSync(out, { recursive: true, force: true });
mkdirSync(out);
const [program, ...args] = process.env.INFERBEAT ? [process.env.INFERBEAT] : ['go', 'run', '../..'];
execFileSync(program, [...args, 'dashboards', '--form', 'v2', '--output-dir', 'out'], { cwd: new URL('.', import.meta.url) });
const files = [];
const check = (name, type, module, board) => {
  files.push(name);
  writeFileSync(new URL(name, out), `import type { ${type} } from '${module}';\nexport const board: ${type} = ${board};\n`);
};
for (const name of readdirSync(boards).filter((name) => name.endsWith('.json'))) {
  check(name.replace('.json', '.ts'), 'Dashboard', '@grafana/schema', readFileSync(new URL(name, boards), 'utf8'));
  const { spec } = JSON.parse(readFileSync(new URL(name, out), 'utf8'));
  check(name.replace('.json', '.v2.ts'), 'Spec', '@grafana/schema/apis/dashboard.grafana.app/v2', JSON.stringify(spec, null, 2));
}
let report = '';
try {
  execFileSync('npx', ['tsc', '--noEmit', '--skipLibCheck', '--strict', '--module', 'esnext', '--moduleResolution', 'bundler', '--target', 'es2022',
    ...files.map((name) => `out/${name}`)], { cwd: new URL('.', import.meta.url), encoding: 'utf8' });
} catch (failed) {
  report = failed.stdout;
}
rmSync(out, { recursive: true });
const errors = report.split('\n').filter((line) => line.includes('error TS'));
const faults = errors.filter((line) => !known.some((pattern) => pattern.test(line)));
console.log(`${files.length} files, ${errors.length - faults.length} known differences, ${faults.length} faults`);
console.log(faults.join('\n'));
process.exit(faults.length > 0 || files.length === 0 || (report !== '' && errors.length === 0) ? 1 : 0);
