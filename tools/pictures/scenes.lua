-- The scenes of tools/editor-pictures: Neovim shows docs/tutorial/race.hir, and the file HIR_READY is written once
-- HIR_SCENE is on the screen.
vim.opt.runtimepath:prepend(vim.env.HIR_VIM)
vim.cmd('filetype plugin on')
vim.cmd('syntax on')
vim.opt.termguicolors = true
vim.opt.number = true
vim.opt.signcolumn = 'yes'
vim.opt.laststatus = 0
vim.opt.ruler = false
vim.opt.shortmess:append('F')
vim.opt.fillchars = { eob = ' ' }

-- Colours on the background of the picture, of any version.
local colours = {
  Normal = '#cdd6f4', SignColumn = '#cdd6f4', LineNr = '#6c7086', Comment = '#7f849c', Statement = '#cba6f7', Conditional = '#cba6f7',
  Repeat = '#cba6f7', Keyword = '#cba6f7', Type = '#f9e2af', Number = '#fab387', Boolean = '#fab387', Special = '#94e2d5',
  PreProc = '#f5c2e7', Function = '#89b4fa', Identifier = '#cdd6f4', String = '#a6e3a1', DiagnosticError = '#f38ba8',
  DiagnosticSignError = '#f38ba8', DiagnosticVirtualTextError = '#f38ba8', DiagnosticFloatingError = '#f38ba8',
  LspCodeLens = '#7f849c', LspCodeLensSeparator = '#7f849c', FloatBorder = '#89b4fa', NormalFloat = '#cdd6f4', MoreMsg = '#89b4fa',
}
for group, colour in pairs(colours) do
  vim.api.nvim_set_hl(0, group, { fg = colour })
end
vim.api.nvim_set_hl(0, 'DiagnosticUnderlineError', { underline = true, sp = '#f38ba8' })
vim.diagnostic.config({ virtual_text = { prefix = '■' }, signs = true })
require('hir').setup({ cmd = { vim.env.HIR_LSP } })

local function place_cursor(pattern)
  vim.fn.cursor(1, 1)
  vim.fn.search('\\V' .. pattern, 'c')
end

local scenes = {}

-- The race as a diagnostic, with its whole message.
scenes.race = {
  at = 'C[at] = matmul',
  show = function()
    vim.diagnostic.open_float(0, { scope = 'line', border = 'rounded', max_width = 110 })
  end,
}

-- What the server says about a tensor.
scenes.hover = {
  at = 'G[rank] = Set',
  show = function()
    vim.lsp.handlers['textDocument/hover'] = vim.lsp.with(vim.lsp.handlers.hover, { border = 'rounded', max_width = 110 })
    vim.lsp.buf.hover()
  end,
}

-- The fix in a list of actions, as plugins show it.
scenes.fix = {
  at = 'C[at] = matmul',
  show = function()
    vim.ui.select = function(items, given)
      local lines = { given.prompt }
      for number, item in ipairs(items) do
        table.insert(lines, number .. '  ' .. given.format_item(item))
      end
      vim.lsp.util.open_floating_preview(lines, '', { border = 'rounded' })
    end
    vim.lsp.buf.code_action()
  end,
}

-- The repaired program, with its verdict.
scenes.proved = {
  at = 'C[at] = matmul',
  show = function()
    vim.ui.select = function(items, _, choose)
      choose(items[1], 1)
    end
    vim.lsp.buf.code_action()
  end,
}

local function has_race()
  for _, found in ipairs(vim.diagnostic.get(0)) do
    if (found.code or (found.user_data and found.user_data.lsp.code)) == 'H0701' then
      return true
    end
  end
  return false
end

-- One step after the other, each by a timer: what closes a window when the cursor moves has run before it opens.
local scene = scenes[vim.env.HIR_SCENE]
local steps = {
  function()
    vim.wait(30000, has_race, 20)
    place_cursor(scene.at)
    vim.lsp.codelens.refresh()
  end,
  function()
    scene.show()
  end,
  function()
    if vim.env.HIR_SCENE == 'proved' then
      vim.lsp.codelens.refresh()
    end
  end,
  function()
    vim.fn.writefile({}, vim.env.HIR_READY)
  end,
}
for number, step in ipairs(steps) do
  vim.defer_fn(step, 1500 * number)
end
