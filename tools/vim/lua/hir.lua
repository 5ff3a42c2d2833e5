-- Host programs in Neovim, from 0.7 on: starts hir-lsp for each `.hir` file, and shows timelines.
--
--   require('hir').setup({ cmd = { 'hir-lsp' }, hir_run = 'hir-run', settings = { sizes = { p = 8 } } })
local M = {}

-- The configuration of lsp/hir.lua, which `vim.lsp.enable('hir')` of Neovim 0.11 reads, too.
local function server_config()
  return dofile(vim.api.nvim_get_runtime_file('lsp/hir.lua', false)[1])
end

local options = { cmd = nil, hir_run = 'hir-run', settings = {} }

-- Starts the server for a buffer; buffers share it.
function M.start(buffer)
  local config = server_config()
  if vim.fn.isdirectory(vim.api.nvim_buf_get_name(buffer)) == 1 then
    return
  end
  if M.client == nil or vim.lsp.get_client_by_id(M.client) == nil then
    M.client = vim.lsp.start_client({
      name = 'hir',
      cmd = options.cmd or config.cmd,
      root_dir = vim.fn.getcwd(),
      on_attach = function(_, attached)
        M.show_lenses(attached)
      end,
      init_options = vim.tbl_extend('force', config.init_options, options.settings),
    })
  end
  if M.client then
    vim.lsp.buf_attach_client(buffer, M.client)
  end
end

-- Shows the verdicts of a buffer, and asks for them again when the proof may have ended.
function M.show_lenses(buffer)
  vim.api.nvim_create_autocmd({ 'BufEnter', 'CursorHold', 'InsertLeave', 'DiagnosticChanged' }, {
    buffer = buffer,
    callback = function()
      if vim.api.nvim_get_current_buf() == buffer then
        vim.lsp.codelens.refresh()
      end
    end,
  })
end

-- Colours a buffer by tree-sitter, if its parser is in the runtime path (tools/tree-sitter-hir/build makes it).
function M.colour(buffer)
  if #vim.api.nvim_get_runtime_file('parser/hir.so', false) == 0 then
    return false
  end
  if vim.treesitter.start then
    vim.treesitter.start(buffer, 'hir')
  else
    vim.treesitter.highlighter.new(vim.treesitter.get_parser(buffer, 'hir'))
  end
  return true
end

-- The command that opens a file of the system in its program.
local function opener()
  for _, name in ipairs({ 'xdg-open', 'open' }) do
    if vim.fn.executable(name) == 1 then
      return name
    end
  end
end

-- Draws the timeline of a file as a page, and opens it in the browser; its path is returned.
function M.timeline(path)
  local page = vim.fn.tempname() .. '.html'
  local output = vim.fn.system({ options.hir_run, path, '--check-only', '--timeline=' .. page })
  if vim.fn.filereadable(page) == 0 then
    vim.api.nvim_err_writeln(output)
    return
  end
  vim.api.nvim_echo({ { 'timeline: ' .. page } }, false, {})
  local command = opener()
  if command and #vim.api.nvim_list_uis() > 0 then
    vim.fn.jobstart({ command, page }, { detach = true })
  end
  return page
end

function M.setup(given)
  options = vim.tbl_extend('force', options, given or {})
  vim.api.nvim_create_autocmd('FileType', {
    pattern = 'hir',
    callback = function(event)
      M.start(event.buf)
      M.colour(event.buf)
    end,
  })
  vim.api.nvim_create_user_command('HirTimeline', function()
    M.timeline(vim.api.nvim_buf_get_name(0))
  end, { desc = 'Draw the timeline of this host program' })
  vim.lsp.commands['hir.timeline'] = function(command)
    M.timeline(vim.uri_to_fname(command.arguments[1]))
  end
end

return M
