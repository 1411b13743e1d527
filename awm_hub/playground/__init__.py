"""The playground: browse environments, play one, watch an agent, share what happened; a web page over the library.

What a visitor does happens on a live instance of their own (`visits`), which answers at an MCP URL as well. Nothing
here but `awm_hub.playground.ui` imports gradio, and nothing but `awm_hub.playground.app` knows that there is a server.
"""
