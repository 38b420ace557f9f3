"""What only training needs: gradients, losses, weight updates."""
