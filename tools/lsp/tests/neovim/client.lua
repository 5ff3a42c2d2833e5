-- Neovim as the client of hir-lsp: what a user does with a program that has a race, by the editor's own commands.
--
-- Run by main.rs as `nvim --headless -u NONE -S client.lua` with HIR_VIM (tools/vim), HIR_LSP (the server), and HIR_FILE (a
-- copy of docs/tutorial/race.hir). Prints a line for each thing that was seen, and quits with 1 at the first that was not.
local function fail(what)
  io.stderr:write('not seen: ' .. what .. '\n')
  vim.cmd('cquit 1')
end

local function expect(what, seen)
  if not seen then
    fail(what)
  end
  io.stdout:write('seen: ' .. what .. '\n')
end

local function wait_for(what, holds)
  expect(what, vim.wait(60000, holds, 20))
end

local function place_cursor(pattern)
  vim.fn.cursor(1, 1)
  expect('the text `' .. pattern .. '`', vim.fn.search('\\V' .. pattern, 'c') > 0)
end

local function line_with(pattern)
  return vim.fn.search('\\V' .. pattern, 'nw')
end

-- The text of the floating windows.
local function floating_text()
  local text = ''
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(window).relative ~= '' then
      text = text .. table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, true), '\n')
    end
  end
  return text
end

local function has_code(code)
  for _, found in ipairs(vim.diagnostic.get(0)) do
    if (found.code or (found.user_data and found.user_data.lsp.code)) == code then
      return true
    end
  end
  return false
end

local function format()
  if vim.lsp.buf.format then
    vim.lsp.buf.format()
  else
    vim.lsp.buf.formatting_sync(nil, 10000)
  end
end

local function check_diagnostics()
  wait_for('the race as a diagnostic with its code', function()
    return has_code('H0701')
  end)
  local found = vim.diagnostic.get(0)[1]
  expect('its place', found.lnum + 1 == line_with('C[at] = matmul(G[at], B)'))
end

local function check_navigation()
  place_cursor('G[rank] = Set')
  vim.lsp.buf.hover()
  wait_for('the type of G on hover', function()
    return floating_text():find('f32[p, m, k]', 1, true) ~= nil
  end)
  place_cursor('wait h')
  vim.fn.search('h$', 'c')
  vim.fn.cursor(vim.fn.line('.'), vim.fn.col('$') - 1)
  vim.lsp.buf.definition()
  wait_for('the definition of h', function()
    return vim.fn.line('.') == line_with('h = { send')
  end)
end

local function check_edits()
  place_cursor('G: f32')
  vim.lsp.buf.rename('Gathered')
  wait_for('all places of G renamed', function()
    return line_with('C[at] = matmul(Gathered[at], B)') > 0 and line_with('recv(Gathered[') > 0
  end)
  expect('no old name', vim.fn.search('\\V\\<G[', 'nw') == 0)
  place_cursor('Gathered[rank] = Set')
  vim.fn.setline('.', '  Gathered[rank]   =   Set( A[own] )')
  format()
  expect('the layout of the language', vim.fn.getline('.') == '  Gathered[rank] = Set(A[own])')
end

-- Whether the server has code actions for the line of the cursor.
local function has_actions()
  local params = vim.lsp.util.make_range_params()
  params.context = { diagnostics = vim.lsp.diagnostic.get_line_diagnostics() }
  local answers = vim.lsp.buf_request_sync(0, 'textDocument/codeAction', params, 10000)
  for _, answer in pairs(answers or {}) do
    if #(answer.result or {}) > 0 then
      return true
    end
  end
  return false
end

local function check_fix()
  wait_for('the race after the edits', function()
    return has_code('H0701')
  end)
  local offered
  vim.ui.select = function(items, _, choose)
    offered = items
    choose(items[1], 1)
  end
  place_cursor('C[at] = matmul')
  -- The diagnostic may be that of the text before the edits: the fix comes with the proof of this text.
  wait_for('a fix', function()
    return has_actions()
  end)
  vim.lsp.buf.code_action()
  wait_for('the fix as a code action, applied', function()
    return line_with('if s > 0: wait h') > 0 and line_with('if s > 0: wait h') < line_with('C[at] = matmul')
  end)
  expect('a list of actions', #offered > 0)
  wait_for('no diagnostic in the repaired program', function()
    return #vim.diagnostic.get(0) == 0
  end)
end

-- The titles of code lenses, which the proof changes.
local function lens_titles()
  local uri = vim.uri_from_bufnr(0)
  local answers = vim.lsp.buf_request_sync(0, 'textDocument/codeLens', { textDocument = { uri = uri } }, 10000)
  local titles = {}
  for _, answer in pairs(answers or {}) do
    for _, lens in ipairs(answer.result or {}) do
      table.insert(titles, lens.command.title)
    end
  end
  return table.concat(titles, '\n')
end

local function main()
  vim.opt.runtimepath:prepend(vim.env.HIR_VIM)
  vim.cmd('filetype plugin on')
  require('hir').setup({ cmd = { vim.env.HIR_LSP } })
  vim.cmd('edit ' .. vim.fn.fnameescape(vim.env.HIR_FILE))
  expect('the file type', vim.bo.filetype == 'hir')
  check_diagnostics()
  check_navigation()
  check_edits()
  check_fix()
  wait_for('the verdict above the program', function()
    return lens_titles():find('proved for', 1, true) ~= nil
  end)
  wait_for('the lenses in the editor', function()
    vim.api.nvim_exec_autocmds('CursorHold', { buffer = 0 })
    return #vim.lsp.codelens.get(vim.api.nvim_get_current_buf()) > 0
  end)
  vim.cmd('quitall!')
end

local done, message = xpcall(main, debug.traceback)
if not done then
  fail(message)
end
