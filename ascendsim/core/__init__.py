"""What every package needs: errors, element types, formats, units, keys, tables, files, arguments."""
