"""The pages of the playground, made with gradio: one module for each view, and `shell` around them."""
